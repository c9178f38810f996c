#pragma once

#include "framework/math/scalar_math.h"

/// pow, as C defines it for every pair of zeros, infinities and NaN, within 1.3 ULP (f32: 0.51;
/// tests/core/scalar_math_test.cpp). Some exponents have a form of few instructions, which is at least as precise. It
/// is part of the function, so that an exponent gives the same bits whether it is a number or one of many elements.
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

/// pow for exponents that have no form of their own.
template <class T>
DIPTYCH_INLINE T long_pow(T x, T y) {
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

namespace detail {

/// x^(n/2) for finite x > 0, for those n that double needs error terms for: within 0.51 ULP, or 1 where the result is
/// near the smallest normal number. r is 1 / sqrt(x), or 1 / x, and q its relative error, by Newton's method.
template <int n>
DIPTYCH_INLINE double precise_half_power(double x) {
  if constexpr (n == 6) {
    const double square = x * x;
    return fma(square, x, fma(x, x, -square) * x);
  } else if constexpr (n == 8) {
    const double square = x * x;
    return fma(square, square, 2 * square * fma(x, x, -square));
  } else if constexpr (n == -4) {
    const double r = 1 / x;
    const double q = fma(-r, x, 1);
    const double square = r * r;
    return square + fma(2 * q, square, fma(r, r, -square));
  } else {
    static_assert(n == -1 || n == -3);
    const double root = sqrt(x);
    const double r = 1 / root;
    const double q = fma(-r, root, 1) - 0.5 * fma(-root, root, x) * (r * r);
    if constexpr (n == -1) {
      return fma(r, q, r);
    }
    // In another scale: the cube may overflow, and then its error isn't a number, or be subnormal, which would lose it.
    const double scaled = (x < 1 ? 0x1p-10 : 0x1p60) * r;
    const double square = r * r;
    const double cube = square * scaled;
    const double rest = fma(square, scaled, -cube) + fma(r, r, -square) * scaled;
    return (cube + fma(3 * q, cube, rest)) * (x < 1 ? 0x1p10 : 0x1p-60);
  }
}

}  // namespace detail

/// x^(n/2), within 0.51 ULP.
template <int n, class T>
DIPTYCH_INLINE T half_power(T x) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  if constexpr (n == 0) {
    return T(1);
  } else if constexpr (n == 2) {
    return x;
  } else if constexpr (n == 4) {
    return x * x;
  } else if constexpr (n == -2) {
    return T(1) / x;
  } else if constexpr (n == 1) {
    const T root = sqrt(x + T(0));  // -0 to 0
    return x == -kInfinity ? kInfinity : root;
  } else if constexpr (std::is_same_v<T, float>) {  // products of two floats are exact in double
    const double wide = x;
    if constexpr (n == 6) {
      return static_cast<T>(wide * wide * wide);
    } else if constexpr (n == 8) {
      return static_cast<T>((wide * wide) * (wide * wide));
    } else if constexpr (n == -4) {
      return static_cast<T>(1 / (wide * wide));
    } else {
      const double positive = wide + 0.0;  // of zeros
      const double root = sqrt(positive);
      const auto power = static_cast<T>(1 / (n == -1 ? root : positive * root));
      return x == -kInfinity ? T(0) : power;
    }
  } else if constexpr (n > 0) {
    // Far below the ends, so that no term of the error overflows.
    const T plain = n == 6 ? x * x * x : (x * x) * (x * x);
    const T precise = detail::precise_half_power<n>(x);
    return abs(x) < T(n == 6 ? 0x1p342 : 0x1p256) ? precise : plain;
  } else if constexpr (n == -4) {
    const T plain = (T(1) / x) * (T(1) / x);
    const T precise = detail::precise_half_power<n>(x);
    const bool is_large = abs(x) > T(0x1p-512);
    const bool is_finite = abs(x) < kInfinity;
    return (is_large & is_finite) ? precise : plain;
  } else {
    // Small x, whose errors would be subnormal, are scaled up, unless the result is infinite anyway.
    constexpr T kLeast = n == -1 ? T(0) : T(0x1p-689);
    const bool tiny = n == -1 && x < T(0x1p-900);
    T result = detail::precise_half_power<n>(tiny ? x * T(0x1p200) : x) * (tiny ? T(0x1p100) : T(1));
    result = x <= kLeast ? kInfinity : result;
    result = x < T(0) ? std::numeric_limits<T>::quiet_NaN() : result;
    result = abs(x) == kInfinity ? T(0) : result;
    return x != x ? x : result;
  }
}

/// False if long_pow(x, y) is pow(x, y).
template <class T>
DIPTYCH_INLINE bool may_be_short_power(T y) {
  const T twice = y + y;
  const bool is_whole = floor(twice) == twice;
  const bool is_small = abs(twice) <= T(8);
  return is_whole & is_small;
}

template <class T>
DIPTYCH_INLINE T pow(T x, T y) {
  T result = long_pow(x, y);
  result = y == T(-2) ? half_power<-4>(x) : result;
  result = y == T(-1.5) ? half_power<-3>(x) : result;
  result = y == T(-1) ? half_power<-2>(x) : result;
  result = y == T(-0.5) ? half_power<-1>(x) : result;
  result = y == T(0.5) ? half_power<1>(x) : result;
  result = y == T(1) ? half_power<2>(x) : result;
  result = y == T(2) ? half_power<4>(x) : result;
  result = y == T(3) ? half_power<6>(x) : result;
  return y == T(4) ? half_power<8>(x) : result;
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
