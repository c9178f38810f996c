#pragma once

#include "framework/math/scalar_math.h"

/// The inverse of the normal distribution function, algorithm AS 241 [Wichura 1988]: PPND7 for float (relative error
/// 1.2e-7), PPND16 for double (1e-15).
namespace diptych::math {

namespace detail {

/// num(x) / den(x), highest power first.
template <class T>
struct QuantileCoefficients;
template <>
struct QuantileCoefficients<float> {
  static constexpr float kCentre[2][4] = {{59.109374720F, 159.29113202F, 50.434271938F, 3.3871327179F},
                                          {67.187563600F, 78.757757664F, 17.895169469F, 1.0F}};
  static constexpr float kTail[2][4] = {{0.17023821103F, 1.3067284816F, 2.7568153900F, 1.4234372777F},
                                        {0.0F, 0.12021132975F, 0.73700164250F, 1.0F}};
  static constexpr float kFar[2][4] = {{0.017337203997F, 0.42868294337F, 3.0812263860F, 6.6579051150F},
                                       {0.0F, 0.012258202635F, 0.24197894225F, 1.0F}};
};
template <>
struct QuantileCoefficients<double> {
  static constexpr double kCentre[2][8] = {
      {2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4, 4.5921953931549871457e+4,
       1.3731693765509461125e+4, 1.9715909503065514427e+3, 1.3314166789178437745e+2, 3.3871328727963666080},
      {5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
       5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0}};
  static constexpr double kTail[2][8] = {
      {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
       3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734},
      {1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
       6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0}};
  static constexpr double kFar[2][8] = {
      {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
       2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720},
      {2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
       1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0}};
};

}  // namespace detail

/// quantile| from the distance to the median, `centre` = |p - 1/2|, and the nearer tail, `tail` = 1/2 - centre > 0.
/// Both are passed, because neither can be computed from the other to full precision.
template <class T>
DIPTYCH_INLINE T normal_quantile(T centre, T tail) {
  using Coefficients = detail::QuantileCoefficients<T>;
  const bool is_central = centre <= T(0.425);
  const T root = sqrt(-log(tail));
  const bool is_far = root > T(5);
  const T x = is_central ? T(0.180625) - centre * centre : root - (is_far ? T(5) : T(1.6));
  constexpr int kTerms = std::is_same_v<T, float> ? 4 : 8;
  T numerator = T(0);
  T denominator = T(0);
#pragma GCC unroll 8
  for (int i = 0; i < kTerms; ++i) {
    const T n = is_far ? Coefficients::kFar[0][i] : Coefficients::kTail[0][i];
    const T d = is_far ? Coefficients::kFar[1][i] : Coefficients::kTail[1][i];
    numerator = fma(numerator, x, is_central ? Coefficients::kCentre[0][i] : n);
    denominator = fma(denominator, x, is_central ? Coefficients::kCentre[1][i] : d);
  }
  const T ratio = numerator / denominator;
  return is_central ? centre * ratio : ratio;
}

}  // namespace diptych::math
