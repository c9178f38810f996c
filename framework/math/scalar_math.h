#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/math/erf_coefficients.h"
#include "framework/math/inline.h"

/// The single source of scalar math: eager kernels, graph kernels and every instruction set use these functions, so
/// they agree bit for bit. They are branch-free (selects only), with explicit fma, so that compilers vectorise them,
/// and within 3 ULP for the elementary functions (tests/core/scalar_math_test.cpp has the measured bounds). NaN and
/// infinities follow IEEE.
namespace diptych::math {

DIPTYCH_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DIPTYCH_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }

namespace detail {

template <class T>
struct FloatTraits;

template <>
struct FloatTraits<float> {
  using Bits = std::int32_t;
  static constexpr int kMantissa = 23;
  static constexpr Bits kBias = 127;
  static constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, ties to even
  static constexpr float kLn2High = 0.693145752F;
  static constexpr float kLn2Low = 1.42860677e-6F;
  static constexpr float kExpMax = 89;
  static constexpr float kExpMin = -104.5F;
  static constexpr float kLogOfMin = -87.3365402F;  ///< log of the smallest normal number, rounded up
};

template <>
struct FloatTraits<double> {
  using Bits = std::int64_t;
  static constexpr int kMantissa = 52;
  static constexpr Bits kBias = 1023;
  static constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double kLn2High = 0x1.62e42fefa38p-1;
  static constexpr double kLn2Low = 0x1.ef35793c7673p-45;
  static constexpr double kExpMax = 710;
  static constexpr double kExpMin = -745.5;
  static constexpr double kLogOfMin = -708.39641853226408;
};

template <class T>
using Bits = typename FloatTraits<T>::Bits;

template <class T>
DIPTYCH_INLINE Bits<T> bits(T x) {
  return std::bit_cast<Bits<T>>(x);
}
template <class T>
DIPTYCH_INLINE T from_bits(Bits<T> b) {
  return std::bit_cast<T>(b);
}

/// Whole numbers that may be anything where a select drops the result: they wrap around.
template <class T>
using Unsigned = std::make_unsigned_t<Bits<T>>;

/// 2^n for an integer n in the normal range; anything for others.
template <class T>
DIPTYCH_INLINE T power_of_two(Bits<T> n) {
  using Traits = FloatTraits<T>;
  return from_bits<T>(static_cast<Bits<T>>((static_cast<Unsigned<T>>(n) + Traits::kBias) << Traits::kMantissa));
}

/// e^r - 1 - r for |r| <= ln(2)/2, as r^2 * polynomial: the Taylor series up to a remainder below half an ULP.
DIPTYCH_INLINE float expm1_tail(float r) {
  float p = 1.0F / 5040;
  p = fma(p, r, 1.0F / 720);
  p = fma(p, r, 1.0F / 120);
  p = fma(p, r, 1.0F / 24);
  p = fma(p, r, 1.0F / 6);
  p = fma(p, r, 0.5F);
  return p * (r * r);
}
DIPTYCH_INLINE double expm1_tail(double r) {
  double p = 1.0 / 6227020800.0;
  p = fma(p, r, 1.0 / 479001600);
  p = fma(p, r, 1.0 / 39916800);
  p = fma(p, r, 1.0 / 3628800);
  p = fma(p, r, 1.0 / 362880);
  p = fma(p, r, 1.0 / 40320);
  p = fma(p, r, 1.0 / 5040);
  p = fma(p, r, 1.0 / 720);
  p = fma(p, r, 1.0 / 120);
  p = fma(p, r, 1.0 / 24);
  p = fma(p, r, 1.0 / 6);
  p = fma(p, r, 0.5);
  return p * (r * r);
}

/// x = n * ln(2) + r.
template <class T>
struct ExpParts {
  T r;
  Bits<T> n;
};
template <class T>
DIPTYCH_INLINE ExpParts<T> exp_reduce(T x) {
  using Traits = FloatTraits<T>;
  const T shifted = fma(x, static_cast<T>(1.44269504088896340736), Traits::kRound);
  const T n = shifted - Traits::kRound;
  T r = fma(n, -Traits::kLn2High, x);
  r = fma(n, -Traits::kLn2Low, r);
  // The low bits of `shifted` hold the integer: no float-to-int conversion, which AVX2 lacks for doubles.
  const auto n_bits = static_cast<Unsigned<T>>(bits(shifted)) - static_cast<Unsigned<T>>(bits(Traits::kRound));
  return {r, static_cast<Bits<T>>(n_bits)};
}

}  // namespace detail

template <class T>
DIPTYCH_INLINE T exp(T x) {
  using Traits = detail::FloatTraits<T>;
  const auto [r, n] = detail::exp_reduce(x);
  const T p = T(1) + (r + detail::expm1_tail(r));
  // In two factors, because 2^n itself overflows or is subnormal at the ends.
  const detail::Bits<T> half = n >> 1;
  T result = p * detail::power_of_two<T>(half) * detail::power_of_two<T>(n - half);
  // Beyond the bounds that is anything. Selects at the end, where nothing waits for their conditions, take half the
  // time of a clamped x. NaN stays the NaN that it is.
  result = x > Traits::kExpMax ? std::numeric_limits<T>::infinity() : result;
  result = x < Traits::kExpMin ? T(0) : result;
  return x != x ? x : result;
}

/// exp(x) where x and the result are so far from the ends that 2^n is normal, or x is NaN. The bits are those of exp.
template <class T>
DIPTYCH_INLINE T exp_within(T x) {
  const auto [r, n] = detail::exp_reduce(x);
  return (T(1) + (r + detail::expm1_tail(r))) * detail::power_of_two<T>(n);
}

/// exp(x) for x <= 0, but 0 where the result isn't a normal number: two thirds of exp's instructions.
template <class T>
DIPTYCH_INLINE T exp_nonpositive(T x) {
  using Traits = detail::FloatTraits<T>;
  const T clamped = x < Traits::kLogOfMin ? Traits::kLogOfMin : x;  // NaN propagates
  const T result = exp_within(clamped);
  return x < Traits::kLogOfMin ? T(0) : result;
}

namespace detail {
/// x = m * 2^exponent for finite x > 0, with m in [sqrt(1/2), sqrt(2)), so that log(m) doesn't cancel with exponent *
/// ln(2). The result for other x is unspecified.
template <class T>
struct LogParts {
  T m;
  T exponent;
};
template <class T>
DIPTYCH_INLINE LogParts<T> log_reduce(T x) {
  using Traits = FloatTraits<T>;
  // Subnormals are scaled up first.
  const bool tiny = x < std::numeric_limits<T>::min();
  const T scaled = tiny ? x * power_of_two<T>(Traits::kMantissa + 1) : x;
  const Bits<T> sqrt_half = bits(static_cast<T>(0.70710678118654752440));
  using Unsigned = std::make_unsigned_t<Bits<T>>;  // negative x: the difference wraps around
  const auto b = static_cast<Bits<T>>(static_cast<Unsigned>(bits(scaled)) - static_cast<Unsigned>(sqrt_half));
  const auto e = static_cast<Bits<T>>(b >> Traits::kMantissa);
  const auto mantissa_mask = static_cast<Bits<T>>((Bits<T>(1) << Traits::kMantissa) - 1);
  return {from_bits<T>(static_cast<Bits<T>>((b & mantissa_mask) + sqrt_half)),
          static_cast<T>(static_cast<std::int32_t>(e) - (tiny ? Traits::kMantissa + 1 : 0))};
}

/// log(x) for finite x > 0.
template <class T>
DIPTYCH_INLINE T log_positive(T x) {
  using Traits = FloatTraits<T>;
  const auto [m, exponent] = log_reduce(x);
  // log(m) = 2 atanh(s), s = (m - 1) / (m + 1) [Tang 1990]; f - s * (f - R) keeps the leading term exact.
  const T f = m - T(1);
  const T s = f / (m + T(1));
  const T z = s * s;
  T series;
  if constexpr (std::is_same_v<T, float>) {
    series = T(2.0 / 9);
    series = fma(series, z, T(2.0 / 7));
    series = fma(series, z, T(2.0 / 5));
    series = fma(series, z, T(2.0 / 3));
  } else {
    series = T(2.0 / 21);
    series = fma(series, z, T(2.0 / 19));
    series = fma(series, z, T(2.0 / 17));
    series = fma(series, z, T(2.0 / 15));
    series = fma(series, z, T(2.0 / 13));
    series = fma(series, z, T(2.0 / 11));
    series = fma(series, z, T(2.0 / 9));
    series = fma(series, z, T(2.0 / 7));
    series = fma(series, z, T(2.0 / 5));
    series = fma(series, z, T(2.0 / 3));
  }
  const T half_square = T(0.5) * f * f;
  const T correction = s * (half_square + z * series);
  return fma(exponent, Traits::kLn2High, f - (half_square - fma(exponent, Traits::kLn2Low, correction)));
}
}  // namespace detail

/// Natural logarithm; -inf at 0, NaN below 0.
template <class T>
DIPTYCH_INLINE T log(T x) {
  T result = detail::log_positive(x);
  result = x == T(0) ? -std::numeric_limits<T>::infinity() : result;
  result = x < T(0) ? std::numeric_limits<T>::quiet_NaN() : result;
  return (x != x || x == std::numeric_limits<T>::infinity()) ? x : result;
}

template <class T>
DIPTYCH_INLINE T sqrt(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return __builtin_sqrtf(x);
  } else {
    return __builtin_sqrt(x);
  }
}

template <class T>
DIPTYCH_INLINE T floor(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return __builtin_floorf(x);
  } else {
    return __builtin_floor(x);
  }
}

/// To the nearest integer, ties to even.
template <class T>
DIPTYCH_INLINE T round_even(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return __builtin_rintf(x);
  } else {
    return __builtin_rint(x);
  }
}

template <class T>
DIPTYCH_INLINE T abs(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return __builtin_fabsf(x);
  } else if constexpr (std::is_same_v<T, double>) {
    return __builtin_fabs(x);
  } else {
    return x < T(0) ? T(std::make_unsigned_t<T>(0) - std::make_unsigned_t<T>(x)) : x;
  }
}

template <class T>
DIPTYCH_INLINE T copy_sign(T magnitude, T sign) {
  if constexpr (std::is_same_v<T, float>) {
    return __builtin_copysignf(magnitude, sign);
  } else {
    return __builtin_copysign(magnitude, sign);
  }
}

/// e^x - 1 for x <= 0 that is not far below 0, as tanh and erf need.
template <class T>
DIPTYCH_INLINE T expm1_negative(T x) {
  // Below this the result is -1 to the last bit.
  const T floor = std::is_same_v<T, float> ? T(-20) : T(-50);
  const auto [r, n] = detail::exp_reduce(x);
  const T q = r + detail::expm1_tail(r);
  const T scale = detail::power_of_two<T>(n);
  const T result = fma(scale, q, scale - T(1));
  return x < floor ? T(-1) : result;
}

/// tanh(x) = -e / (e + 2) with e = expm1(-2|x|).
template <class T>
DIPTYCH_INLINE T tanh(T x) {
  const T e = expm1_negative(T(-2) * abs(x));
  const T magnitude = -e / (e + T(2));
  return x != x ? x : copy_sign(magnitude, x);
}

/// e^x - 1 without cancellation near 0.
template <class T>
DIPTYCH_INLINE T expm1(T x) {
  using Traits = detail::FloatTraits<T>;
  const T floor = std::is_same_v<T, float> ? T(-20) : T(-50);
  const auto [r, n] = detail::exp_reduce(x);
  const T q = r + detail::expm1_tail(r);
  // 2^n (1 + q) - 1 with half the scale, which is normal over the whole range.
  const T half_scale = detail::power_of_two<T>(static_cast<detail::Bits<T>>(static_cast<detail::Unsigned<T>>(n) - 1));
  T result = T(2) * fma(half_scale, q, half_scale - T(0.5));
  result = x < floor ? T(-1) : result;
  result = x > Traits::kExpMax ? std::numeric_limits<T>::infinity() : result;
  return x == T(0) || x != x ? x : result;  // -0 stays -0
}

/// log(1 + x) without cancellation near 0: the rounding error of 1 + x is compensated to first order.
template <class T>
DIPTYCH_INLINE T log1p(T x) {
  const T u = T(1) + x;
  const T lost = x > T(1) ? T(1) - (u - x) : x - (u - T(1));
  T result = detail::log_positive(u) + lost / u;
  result = x < T(-1) ? std::numeric_limits<T>::quiet_NaN() : result;
  result = x == T(-1) ? -std::numeric_limits<T>::infinity() : result;
  return (x == T(0) || x == std::numeric_limits<T>::infinity()) ? x : result;
}

/// 1 / (1 + e^-x), with the bits of that in exp(): what exp() does at the ends isn't needed where e^-x is added to 1.
template <class T>
DIPTYCH_INLINE T sigmoid(T x) {
  const auto [r, n] = detail::exp_reduce(-x);
  const T p = T(1) + (r + detail::expm1_tail(r));
  // In half the scale, which is normal as long as the result isn't 0 or 1.
  const T half_scale = detail::power_of_two<T>(static_cast<detail::Bits<T>>(static_cast<detail::Unsigned<T>>(n) - 1));
  const T result = T(1) / (T(1) + p * half_scale * T(2));
  const T above_zero = x < -detail::FloatTraits<T>::kExpMax ? T(0) : result;
  return x > T(80) ? T(1) : above_zero;
}

namespace detail {
template <class T, std::size_t N>
DIPTYCH_INLINE T horner(const T (&coefficients)[N], T x) {
  T p = coefficients[0];
#pragma GCC unroll 32
  for (std::size_t i = 1; i < N; ++i) {
    p = fma(p, x, coefficients[i]);
  }
  return p;
}
DIPTYCH_INLINE float erf_near(float z) { return horner(kErfNear_float, z); }
DIPTYCH_INLINE double erf_near(double z) { return horner(kErfNear_double, z); }
DIPTYCH_INLINE float erf_far(float u) { return horner(kErfFar_float, u); }
DIPTYCH_INLINE double erf_far(double u) { return horner(kErfFar_double, u); }
}  // namespace detail

/// A polynomial near zero; 1 - exp(-x^2) * polynomial beyond one; see erf_coefficients.h.
template <class T>
DIPTYCH_INLINE T erf(T x) {
  const T a = abs(x);
  const T near = x * detail::erf_near(x * x);
  const T end = std::is_same_v<T, float> ? T(4.2) : T(6.2);  // from here on the result is 1 to the last bit
  const T clamped = a > end ? end : a;
  const T u = (clamped - T(2)) / (clamped + T(2));
  const T far = T(1) - exp_within(-(clamped * clamped)) * detail::erf_far(u);
  const T result = a < T(1) ? near : copy_sign(far, x);
  return x != x ? x : result;
}

/// log(1 + e^x) - max(x, 0), without the special cases of exp and log, which can't occur here: where one select feeds
/// another, GCC threads branches through both, and nothing vectorises.
template <class T>
DIPTYCH_INLINE T softplus_tail(T x) {
  using Traits = detail::FloatTraits<T>;
  const T y = -abs(x);
  const auto [r, n] = detail::exp_reduce(y < Traits::kExpMin ? Traits::kExpMin : y);
  const detail::Bits<T> half = n >> 1;
  const T e = (T(1) + (r + detail::expm1_tail(r))) * detail::power_of_two<T>(half) * detail::power_of_two<T>(n - half);
  const T u = T(1) + e;
  const T tail = detail::log_positive(u) + (e - (u - T(1))) / u;  // as in log1p
  return y < Traits::kExpMin ? T(0) : tail;
}

/// The larger; NaN if either is NaN.
template <class T>
DIPTYCH_INLINE T maximum(T a, T b) {
  const T larger = a > b ? a : b;
  return a != a ? a : larger;  // b NaN: a > b is false, so b is taken
}

/// The smaller; NaN if either is NaN.
template <class T>
DIPTYCH_INLINE T minimum(T a, T b) {
  const T smaller = a < b ? a : b;
  return a != a ? a : smaller;
}

/// Converts a number to another type. Float to integer truncates, saturates at the ends and maps NaN to 0; integers
/// wrap around.
template <class To, class From>
DIPTYCH_INLINE To convert(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // A plain conversion is undefined out of range. The ends are powers of two, which floats represent exactly.
    using Limits = std::numeric_limits<To>;
    constexpr From kEnd = static_cast<From>((Limits::max() >> 1U) + 1) * From(2);
    const bool inside = (std::is_signed_v<To> ? x >= -kEnd : x > From(-1)) && x < kEnd;
    const To converted = static_cast<To>(inside ? x : From(0));
    const To end = x < From(0) ? Limits::min() : Limits::max();
    return inside || x != x ? converted : end;
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace diptych::math
