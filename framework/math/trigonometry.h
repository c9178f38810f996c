#pragma once

#include "framework/math/scalar_math.h"

/// sin and cos over the whole range of both float types, within 1 ULP (tests/core/scalar_math_test.cpp). Arguments up
/// to `kCommonTurn` use a branch-free reduction that vectorises; larger ones use integer arithmetic, element by
/// element.
namespace diptych::math {

namespace detail {

/// x = quadrant * pi/2 + (r + tail), with |r| at most slightly above pi/4. Only the last two bits of the quadrant are
/// meaningful.
template <class T>
struct Turn {
  T r;
  T tail;
  Bits<T> quadrant;
};

template <class T>
struct TurnTraits;
/// pi/2 in parts of full precision: with fma the first product is exact, so no part needs spare bits.
template <>
struct TurnTraits<float> {
  static constexpr float kHalfPi[] = {0x1.921fb6p+0F, -0x1.777a5cp-25F, -0x1.ee59dap-50F};
  static constexpr float kLimit = 1e5F;
  static constexpr float kSin[] = {2.7181216275e-6F, -1.9839334836e-4F, 8.3333293930e-3F, -0.16666666642F};
  static constexpr float kCos[] = {2.443315711809948e-5F, -1.388731625493765e-3F, 4.166664568298827e-2F};
};
/// The polynomials of fdlibm's __kernel_sin and __kernel_cos.
template <>
struct TurnTraits<double> {
  static constexpr double kHalfPi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
  static constexpr double kLimit = 1e9;
  static constexpr double kSin[] = {1.58969099521155010221e-10, -2.50507602534068634195e-8, 2.75573137070700676789e-6,
                                    -1.98412698298579493134e-4, 8.33333333332248946124e-3,  -1.66666666666666324348e-1};
  static constexpr double kCos[] = {-1.13596475577881948265e-11, 2.08757232129817482790e-9,  -2.75573143513906633035e-7,
                                    2.48015872894767294178e-5,   -1.38888888888741095749e-3, 4.16666666666666019037e-2};
};

/// For |x| <= kLimit [Cody & Waite 1980].
template <class T>
DIPTYCH_INLINE Turn<T> turn_common(T x) {
  using Traits = TurnTraits<T>;
  const T shifted = fma(x, static_cast<T>(0.63661977236758134308), FloatTraits<T>::kRound);
  const T n = shifted - FloatTraits<T>::kRound;
  const T first = fma(n, -Traits::kHalfPi[0], x);  // exact
  // first - n * kHalfPi[1], plus the rounding errors of the product and the difference: near multiples of pi/2 they
  // cancel.
  const T product = n * Traits::kHalfPi[1];
  const T r = first - product;
  const T moved = r - first;
  const T lost = (first - (r - moved)) - (product + moved);
  const T tail = lost - fma(n, Traits::kHalfPi[2], fma(n, Traits::kHalfPi[1], -product));
  return {r, tail, static_cast<Bits<T>>(bits(shifted) - bits(FloatTraits<T>::kRound))};
}

/// 2 / pi in words of 64 bits, preceded by a word of zeros: enough bits for the largest double.
inline constexpr std::uint64_t kTwoOverPi[] = {
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41,
    0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
};

/// For finite |x| > 2^29 [Payne & Hanek 1983]: the integer product of the mantissa with the relevant bits of 2/pi,
/// giving 128 bits of the fraction, of which cancellation removes at most 61.
DIPTYCH_INLINE Turn<double> turn_large(double x) {
  __extension__ typedef unsigned __int128 Wide;
  __extension__ typedef __int128 SignedWide;
  const std::uint64_t b = static_cast<std::uint64_t>(bits(x));
  const std::uint64_t mantissa = (b & ((std::uint64_t{1} << 52U) - 1)) | (std::uint64_t{1} << 52U);
  // x = mantissa * 2^e; bits of 2/pi above 2^(2 - e) give whole turns. Another 64 for the word of zeros.
  const auto e = static_cast<std::int64_t>((b >> 52U) & 0x7FFU) - 1075;
  const auto skipped = static_cast<std::uint64_t>(e - 2 + 64);
  const std::uint64_t* word = kTwoOverPi + skipped / 64;
  const std::uint64_t shift = skipped % 64;
  const auto window = [&](int i) {
    return static_cast<std::uint64_t>((((Wide(word[i]) << 64U) | word[i + 1]) << shift) >> 64U);
  };
  const Wide low = Wide(mantissa) * window(2);
  const Wide middle = Wide(mantissa) * window(1) + (low >> 64U);
  const std::uint64_t high = mantissa * window(0) + static_cast<std::uint64_t>(middle >> 64U);
  // high:middle:low is x * 2/pi in units of 2^-190, modulo 4: two bits of quadrant, then the fraction.
  const Wide top = (Wide(high) << 64U) | static_cast<std::uint64_t>(middle);
  const auto fraction = static_cast<SignedWide>((top << 2U) | (static_cast<std::uint64_t>(low) >> 62U));
  const std::uint64_t quadrant = (high >> 62U) + (fraction < 0 ? 1 : 0);  // to nearest
  const auto first = static_cast<double>(fraction);
  const auto second = static_cast<double>(fraction - static_cast<SignedWide>(first));
  constexpr const double(&half_pi)[3] = TurnTraits<double>::kHalfPi;
  const double f0 = first * 0x1p-128;
  const double f1 = second * 0x1p-128;
  const double r = f0 * half_pi[0];
  const double tail = fma(f0, half_pi[0], -r) + fma(f0, half_pi[1], f1 * half_pi[0]);
  const bool negative = x < 0;
  return {negative ? -r : r, negative ? -tail : tail,
          static_cast<std::int64_t>(negative ? std::uint64_t{0} - quadrant : quadrant)};
}

template <class T>
DIPTYCH_INLINE Turn<T> turn_any(T x) {
  if (!(abs(x) > TurnTraits<T>::kLimit)) {
    return turn_common(x);
  }
  if (abs(x) == std::numeric_limits<T>::infinity()) {
    return {x - x, T(0), 0};
  }
  if constexpr (std::is_same_v<T, float>) {
    // Beyond the limit for float, but maybe too small for the integer reduction.
    const Turn<double> turn = abs(x) > 1e9F ? turn_large(static_cast<double>(x)) : turn_common(static_cast<double>(x));
    const auto r = static_cast<float>(turn.r);
    return {r, static_cast<float>(turn.r - static_cast<double>(r)), static_cast<std::int32_t>(turn.quadrant & 3)};
  } else {
    return turn_large(x);
  }
}

template <class T, std::size_t N>
DIPTYCH_INLINE T polynomial(const T (&coefficients)[N], T x) {
  T p = coefficients[0];
#pragma GCC unroll 32
  for (std::size_t i = 1; i < N; ++i) {
    p = fma(p, x, coefficients[i]);
  }
  return p;
}

/// The sine of a turn; for the cosine, a quarter turn ahead.
template <class T>
DIPTYCH_INLINE T sine(const Turn<T>& turn, Bits<T> ahead) {
  const auto [r, tail, quadrant_before] = turn;
  const Bits<T> quadrant = quadrant_before + ahead;
  const T z = r * r;
  const T half = T(0.5) * z;
  const T sin = r + fma(r * z, polynomial(TurnTraits<T>::kSin, z), tail * (T(1) - half));
  const T w = T(1) - half;
  const T cos = w + (((T(1) - w) - half) + fma(z * z, polynomial(TurnTraits<T>::kCos, z), -(r * tail)));
  const T magnitude = (quadrant & 1) != 0 ? cos : sin;
  return (quadrant & 2) != 0 ? -magnitude : magnitude;
}

}  // namespace detail

/// The largest magnitude for which `sin_common` and `cos_common` are right.
template <class T>
inline constexpr T kCommonTurn = detail::TurnTraits<T>::kLimit;

template <class T>
DIPTYCH_INLINE T sin_common(T x) {
  return x == T(0) ? x : detail::sine(detail::turn_common(x), 0);  // -0 stays -0
}
template <class T>
DIPTYCH_INLINE T cos_common(T x) {
  return detail::sine(detail::turn_common(x), 1);
}
/// For every x, with the same bits as the common functions where those are right. NaN at infinity.
template <class T>
DIPTYCH_INLINE T sin(T x) {
  return x == T(0) ? x : detail::sine(detail::turn_any(x), 0);
}
template <class T>
DIPTYCH_INLINE T cos(T x) {
  return detail::sine(detail::turn_any(x), 1);
}

namespace detail {

/// The ranges and polynomials of Cephes' atanf and atan [Moshier 1989]: from tan(3 pi/8) on around pi/2, from `kMiddle`
/// on around pi/4.
template <class T>
struct AtanTraits;
template <>
struct AtanTraits<float> {
  static constexpr float kMiddle = 0.4142135623730950F;
  static constexpr float kQuarterLow = -2.18556951e-8F;  ///< pi/4 - its nearest float
  DIPTYCH_INLINE static float tail(float z) {
    float p = 8.05374449538e-2F;
    p = fma(p, z, -1.38776856032e-1F);
    p = fma(p, z, 1.99777106478e-1F);
    return fma(p, z, -3.33329491539e-1F);
  }
};
template <>
struct AtanTraits<double> {
  static constexpr double kMiddle = 0.66;
  static constexpr double kQuarterLow = 3.061616997868383018e-17;
  DIPTYCH_INLINE static double tail(double z) {
    double p = -8.750608600031904122785e-1;
    p = fma(p, z, -1.615753718733365076637e1);
    p = fma(p, z, -7.500855792314704667340e1);
    p = fma(p, z, -1.228866684490136173410e2);
    p = fma(p, z, -6.485021904942025371773e1);
    double q = z + 2.485846490142306297962e1;
    q = fma(q, z, 1.650270098316988542046e2);
    q = fma(q, z, 4.328810604912902668951e2);
    q = fma(q, z, 4.853903996359136964868e2);
    return p / fma(q, z, 1.945506571482613964425e2);
  }
};

}  // namespace detail

/// atan(x) = atan(r) + 0, pi/4 or pi/2.
template <class T>
DIPTYCH_INLINE T atan(T x) {
  using Traits = detail::AtanTraits<T>;
  const T size = abs(x);
  const bool is_far = size > T(2.41421356237309504880);
  const bool is_middle = size > Traits::kMiddle;
  const T r = is_far ? T(-1) / size : is_middle ? (size - T(1)) / (size + T(1)) : size;
  const T high = is_far ? T(1.57079632679489661923) : is_middle ? T(0.78539816339744830962) : T(0);
  const T low = is_far ? T(2) * Traits::kQuarterLow : is_middle ? Traits::kQuarterLow : T(0);
  const T z = r * r;
  return copy_sign(high + (fma(Traits::tail(z) * z, r, r) + low), x);
}

}  // namespace diptych::math
