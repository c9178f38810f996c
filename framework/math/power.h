#pragma once

#include "framework/math/scalar_math.h"

/// pow, as C defines it for every pair of zeros, infinities and NaN, within 1.5 ULP (tests/core/scalar_math_test.cpp).
namespace diptych::math {

namespace detail {

/// An unevaluated sum, with |low| well below |high|.
struct Pair {
  double high;
  double low;
};

DIPTYCH_INLINE Pair multiply(Pair a, Pair b) {
  const double high = a.high * b.high;
  return {high, fma(a.high, b.high, -high) + fma(a.high, b.low, a.low * b.high)};
}
/// Requires |a.high| >= |b.high|, or a = 0.
DIPTYCH_INLINE Pair add_smaller(Pair a, Pair b) {
  const double high = a.high + b.high;
  return {high, ((a.high - high) + b.high) + (a.low + b.low)};
}

/// log(x) for finite x > 0 to 65 bits, because e^(y log(x)) multiplies its relative error by up to 745.
/// 2 atanh(s) = 2 s + s^3 (2/3 + z (2/5 + ...)), z = s^2 <= 0.0295: the terms after 2/3 need no low part.
DIPTYCH_INLINE Pair log_pair(double x) {
  constexpr double kSeries[] = {2.0 / 25, 2.0 / 23, 2.0 / 21, 2.0 / 19, 2.0 / 17, 2.0 / 15,
                                2.0 / 13, 2.0 / 11, 2.0 / 9,  2.0 / 7,  2.0 / 5};
  const auto [m, exponent] = log_reduce(x);
  const double f = m - 1;
  const double sum = f + 2;  // m + 1
  const double sum_low = f - (sum - 2);
  const double quotient = f / sum;
  const Pair s = {quotient, (fma(-quotient, sum, f) - quotient * sum_low) / sum};
  const Pair z = multiply(s, s);
  double p = kSeries[0];
#pragma GCC unroll 16
  for (int i = 1; i < 11; ++i) {
    p = fma(p, z.high, kSeries[i]);
  }
  const Pair series = add_smaller({0x1.5555555555555p-1, 0x1.5555555555555p-55}, {z.high * p, 0.4 * z.low});
  const Pair log_m = add_smaller({2 * s.high, 2 * s.low}, multiply(s, multiply(z, series)));
  using Traits = FloatTraits<double>;
  const Pair log_2 = {exponent * Traits::kLn2High, exponent * Traits::kLn2Low};  // the first product is exact
  const Pair result = add_smaller(log_2, log_m);
  const double high = result.high + result.low;
  return {high, (result.high - high) + result.low};
}

/// x^y for finite x > 0 and finite y.
DIPTYCH_INLINE double positive_power(double x, double y) {
  const Pair log_x = log_pair(x);
  const double product = y * log_x.high;
  // Beyond 800 the result is 0 or infinity by far, and the low part of the product is not a number.
  constexpr double kEnd = 800;
  const double rest = fma(y, log_x.high, -product) + y * log_x.low;
  const double low = abs(product) < kEnd ? rest : 0;
  double clamped = product > kEnd ? kEnd : product;
  clamped = clamped < -kEnd ? -kEnd : clamped;
  const auto [r, n] = exp_reduce(clamped);
  const double q = r + expm1_tail(r);
  const double p = 1 + fma(low, 1 + q, q);
  const std::int64_t half = n >> 1;
  return p * power_of_two<double>(half) * power_of_two<double>(n - half);
}
DIPTYCH_INLINE float positive_power(float x, float y) {
  return static_cast<float>(exp(static_cast<double>(y) * log(static_cast<double>(x))));
}

}  // namespace detail

template <class T>
DIPTYCH_INLINE T pow(T x, T y) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const T a = abs(x);
  // Whole numbers from 2^mantissa on are even, and floor() doesn't change them.
  const bool whole = floor(y) == y;
  const T half = T(0.5) * y;
  const bool odd = whole & (floor(half) != half);
  T result = detail::positive_power(a, y);
  const T at_zero = y < T(0) ? kInfinity : T(0);
  const T at_infinity = y < T(0) ? T(0) : kInfinity;
  result = a == T(0) ? at_zero : result;
  result = a == kInfinity ? at_infinity : result;
  const T at_infinite_exponent = (a < T(1)) == (y < T(0)) ? kInfinity : T(0);
  result = abs(y) == kInfinity ? (a == T(1) ? T(1) : at_infinite_exponent) : result;
  result = odd ? copy_sign(result, x) : result;
  result = ((x < T(0)) & (a != kInfinity) & !whole) ? std::numeric_limits<T>::quiet_NaN() : result;
  result = ((x != x) | (y != y)) ? x + y : result;
  return ((x == T(1)) | (y == T(0))) ? T(1) : result;
}

/// Integers wrap around; a negative power of anything but 1 and -1 is 0, as in integer division.
template <class T>
DIPTYCH_INLINE T integer_pow(T x, T y) {
  using U = std::make_unsigned_t<T>;
  // At least unsigned int: the promotion of shorter types to int could overflow.
  using Product = std::common_type_t<U, unsigned>;
  Product result = 1;
  Product square = static_cast<U>(x);
  for (U left = static_cast<U>(y); left != 0; left = static_cast<U>(left >> 1U)) {
    result *= (left & 1U) != 0 ? square : Product(1);
    square *= square;
  }
  if constexpr (std::is_signed_v<T>) {
    if (y < T(0)) {
      const T sign = (y & 1) != 0 ? T(-1) : T(1);
      return x == T(1) ? T(1) : x == T(-1) ? sign : T(0);
    }
  }
  return static_cast<T>(static_cast<U>(result));
}

}  // namespace diptych::math
