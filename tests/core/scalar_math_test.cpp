// Accuracy of the scalar math in ULP, against the C library in extended precision.

#include "framework/math/scalar_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "framework/math/normal_quantile.h"
#include "framework/math/power.h"
#include "framework/math/trigonometry.h"

namespace diptych::math {
namespace {

template <class T>
double ulp_error(T actual, long double expected) {
  const T rounded = static_cast<T>(expected);
  const long double ulp =
      static_cast<long double>(std::nextafter(std::fabs(rounded), std::numeric_limits<T>::infinity())) -
      std::fabs(static_cast<long double>(rounded));
  return static_cast<double>(std::fabs(static_cast<long double>(actual) - expected) / ulp);
}

template <class T>
void expect_within(double bound, T (*actual)(T), long double (*expected)(long double), double low, double high) {
  constexpr int kPoints = 300000;
  double worst = 0;
  T at = 0;
  for (int i = 0; i <= kPoints; ++i) {
    const T x = static_cast<T>(low + (high - low) * i / kPoints);
    const double error = ulp_error(actual(x), expected(x));
    if (error > worst) {
      worst = error;
      at = x;
    }
  }
  EXPECT_LE(worst, bound) << "at " << at;
}

long double sigmoid_of(long double x) { return 1 / (1 + std::exp(-x)); }

TEST(ScalarMath, Float32) {
  expect_within<float>(
      1.1, [](float x) { return exp(x); }, std::exp, -87, 88);
  expect_within<float>(
      1.1, [](float x) { return exp(x); }, std::exp, -103, -87);
  expect_within<float>(
      1.1, [](float x) { return exp_nonpositive(x); }, std::exp, -87.3, 0);
  expect_within<float>(
      1.0, [](float x) { return log(x); }, std::log, 1e-6, 20);
  expect_within<float>(
      1.0, [](float x) { return log(x); }, std::log, 1e-44, 1e-37);
  expect_within<float>(
      2.6, [](float x) { return tanh(x); }, std::tanh, -12, 12);
  expect_within<float>(
      2.6, [](float x) { return tanh(x); }, std::tanh, -0.01, 0.01);
  expect_within<float>(
      2.6, [](float x) { return sigmoid(x); }, sigmoid_of, -30, 30);
  expect_within<float>(
      2.6, [](float x) { return erf(x); }, std::erf, -6, 6);
}

TEST(ScalarMath, ExpOfNonpositiveNumbersAtTheEnds) {
  EXPECT_EQ(exp_nonpositive(0.0F), 1.0F);
  EXPECT_EQ(exp_nonpositive(-0.0), 1.0);
  EXPECT_GE(exp_nonpositive(-87.33F), std::numeric_limits<float>::min());
  EXPECT_EQ(exp_nonpositive(-87.34F), 0.0F);
  EXPECT_EQ(exp_nonpositive(-708.4), 0.0);
  EXPECT_EQ(exp_nonpositive(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_TRUE(std::isnan(exp_nonpositive(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(exp_nonpositive(std::numeric_limits<double>::quiet_NaN())));
}

/// In the part of e^-x that it needs, sigmoid computes what exp does.
TEST(ScalarMath, SigmoidHasTheBitsOfItsFormula) {
  const auto differs = []<class T>(T x) {
    const T expected = T(1) / (T(1) + exp(-x));
    const T result = sigmoid(x);
    return std::isnan(x) ? !std::isnan(result) : std::memcmp(&expected, &result, sizeof(T)) != 0;
  };
  // Every 251st float, so that each exponent has some 33,000.
  for (std::uint64_t bits = 0; bits <= 0xFFFFFFFFULL; bits += 251) {
    ASSERT_FALSE(differs(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))) << bits;
  }
  for (double x = -760; x < 760; x += 1.0 / 1024) {
    ASSERT_FALSE(differs(x)) << x;
  }
  for (const double x : {1e300, -1e300, 5e-324, -0.0, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    EXPECT_FALSE(differs(x)) << x;
    EXPECT_FALSE(differs(static_cast<float>(x))) << x;
  }
}

TEST(ScalarMath, Float64) {
  expect_within<double>(
      1.1, [](double x) { return exp(x); }, std::exp, -708, 709.7);
  expect_within<double>(
      1.1, [](double x) { return exp_nonpositive(x); }, std::exp, -708, 0);
  expect_within<double>(
      1.0, [](double x) { return log(x); }, std::log, 1e-6, 20);
  expect_within<double>(
      2.6, [](double x) { return tanh(x); }, std::tanh, -22, 22);
  expect_within<double>(
      2.6, [](double x) { return sigmoid(x); }, sigmoid_of, -30, 30);
  expect_within<double>(
      2.6, [](double x) { return erf(x); }, std::erf, -7, 7);
}

/// Over all magnitudes: numbers with random bits, below `limit`.
template <class T>
void expect_within_for_all_sizes(double bound, T (*actual)(T), long double (*expected)(long double), double limit) {
  std::mt19937_64 bits(1);
  double worst = 0;
  T at = 0;
  for (int i = 0; i < 400000; ++i) {
    const auto b = static_cast<detail::Bits<T>>(bits());
    const T x = std::bit_cast<T>(b);
    const long double e = expected(x);
    if (!(std::fabs(x) < limit) || !std::isfinite(static_cast<T>(e))) {
      continue;
    }
    const double error = ulp_error(actual(x), e);
    if (error > worst) {
      worst = error;
      at = x;
    }
  }
  EXPECT_LE(worst, bound) << "at " << at;
}

template <class T>
class ScalarMathOf : public ::testing::Test {};
using FloatTypes = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ScalarMathOf, FloatTypes);

TYPED_TEST(ScalarMathOf, Expm1AndLog1p) {
  using T = TypeParam;
  const double most = std::is_same_v<T, float> ? 88 : 709;
  expect_within<T>(
      2.0, [](T x) { return expm1(x); }, std::expm1, -40, most);
  expect_within<T>(
      2.0, [](T x) { return expm1(x); }, std::expm1, -1, 1);
  expect_within_for_all_sizes<T>(
      2.0, [](T x) { return expm1(x); }, std::expm1, most);
  expect_within<T>(
      1.6, [](T x) { return log1p(x); }, std::log1p, -0.999, 10);
  expect_within_for_all_sizes<T>(
      1.6, [](T x) { return log1p(x); }, std::log1p, INFINITY);
}

TYPED_TEST(ScalarMathOf, ArcTangentOfEverySize) {
  using T = TypeParam;
  expect_within<T>(
      2.6, [](T x) { return atan(x); }, std::atan, -3, 3);
  expect_within_for_all_sizes<T>(
      2.6, [](T x) { return atan(x); }, std::atan, INFINITY);
  EXPECT_EQ(atan(std::numeric_limits<T>::infinity()), static_cast<T>(std::acos(-1.0L) / 2));
  EXPECT_TRUE(std::signbit(atan(T(-0.0))));
  EXPECT_TRUE(std::isnan(atan(std::numeric_limits<T>::quiet_NaN())));
}

TYPED_TEST(ScalarMathOf, SineAndCosineOfEverySize) {
  using T = TypeParam;
  for (const double range : {1.0, 10.0, 1e5, 1.1e5, 1e9, 1.1e9}) {
    expect_within<T>(
        0.8, [](T x) { return sin(x); }, std::sin, -range, range);
    expect_within<T>(
        0.8, [](T x) { return cos(x); }, std::cos, -range, range);
  }
  expect_within_for_all_sizes<T>(
      0.8, [](T x) { return sin(x); }, std::sin, INFINITY);
  expect_within_for_all_sizes<T>(
      0.8, [](T x) { return cos(x); }, std::cos, INFINITY);
}

TYPED_TEST(ScalarMathOf, SineAndCosineNextToMultiplesOfHalfPi) {  // where the reduction cancels most
  using T = TypeParam;
  double worst = 0;
  for (long k = 1; k < 60000; ++k) {
    for (const long multiple : {k, 7919 * k}) {
      T x = static_cast<T>(static_cast<long double>(multiple) * 1.57079632679489661923L);
      for (int step = 0; step < 3; ++step, x = std::nextafter(x, std::numeric_limits<T>::infinity())) {
        worst = std::max(worst, ulp_error(sin(x), std::sin(static_cast<long double>(x))));
        worst = std::max(worst, ulp_error(cos(x), std::cos(static_cast<long double>(x))));
      }
    }
  }
  EXPECT_LE(worst, 0.8);
}

// Published hard cases: 22 [Kahan], the float and the double nearest to a multiple of pi/2 [Muller 2016, table 11.1],
// the largest numbers. Values by mpmath with 1,300 bits.
TEST(ScalarMath, SineAndCosineOfKnownHardCases) {
  EXPECT_DOUBLE_EQ(sin(22.0), -8.8513092904038759e-3);
  EXPECT_DOUBLE_EQ(cos(6381956970095103.0 * 0x1p797), -4.6871659242546276e-19);
  EXPECT_DOUBLE_EQ(sin(1.7976931348623157e308), 4.9619547891840618e-3);
  EXPECT_DOUBLE_EQ(cos(1.7976931348623157e308), -9.9998768942655994e-1);
  EXPECT_FLOAT_EQ(cos(16367173.0F * 0x1p72F), -1.6147698e-9F);
  EXPECT_FLOAT_EQ(sin(3.40282347e38F), -5.21876523e-1F);
}

TYPED_TEST(ScalarMathOf, SineIsTheSameByBothReductionsWhereBothAreRight) {
  using T = TypeParam;
  for (int i = 0; i < 10000; ++i) {
    const T x = kCommonTurn<T> * static_cast<T>(i - 5000) / T(5000);
    EXPECT_EQ(sin(x), sin_common(x));
    EXPECT_EQ(cos(x), cos_common(x));
  }
}

TYPED_TEST(ScalarMathOf, Pow) {
  using T = TypeParam;
  const bool narrow = std::is_same_v<T, float>;
  struct Range {
    double log_low, log_high, y;
  };
  const double top = narrow ? 80 : 700;
  for (const Range& r : {Range{-top, top, 1}, Range{-3, 3, top / 3}, Range{-0.01, 0.01, 100 * top}, Range{-5, 5, 5}}) {
    std::mt19937_64 random(2);
    std::uniform_real_distribution<double> log_x(r.log_low, r.log_high);
    std::uniform_real_distribution<double> ys(-r.y, r.y);
    double worst = 0;
    T x_at = 0;
    T y_at = 0;
    for (int i = 0; i < 200000; ++i) {
      const T x = static_cast<T>(std::exp(log_x(random)));
      const T y = static_cast<T>(ys(random));
      const double error = ulp_error(pow(x, y), std::pow(static_cast<long double>(x), static_cast<long double>(y)));
      if (error > worst) {
        worst = error;
        x_at = x;
        y_at = y;
      }
    }
    EXPECT_LE(worst, narrow ? 0.51 : 1.3) << x_at << " ^ " << y_at;
  }
}

TEST(ScalarMath, PowOfExactCases) {
  for (int base = -12; base <= 12; ++base) {
    double exact = 1;
    for (int n = 0; n <= 14; ++n, exact *= base) {
      if (std::fabs(exact) < 0x1p24) {  // beyond, halfway cases may go either way
        EXPECT_EQ(pow(static_cast<float>(base), static_cast<float>(n)), static_cast<float>(exact));
      }
      EXPECT_NEAR(pow(static_cast<double>(base), static_cast<double>(n)), exact, std::fabs(exact) * 1.2e-16 * 1.3);
    }
  }
  for (int n = -1074; n < 1024; ++n) {
    EXPECT_EQ(pow(2.0, static_cast<double>(n)), std::ldexp(1.0, n)) << n;
  }
}

long double half_power_of(long double x, int n) {
  const long double root = std::sqrt(x);
  switch (n) {
    case 1:
      return root;
    case -1:
      return 1 / root;
    case -3:
      return 1 / (x * root);
    default:
      return std::pow(x, n / 2);  // exact, or rounded to 64 bits
  }
}

/// Over the whole range, and where results overflow or are subnormal.
template <int n, class T>
void expect_precise_power() {
  using Limits = std::numeric_limits<T>;
  constexpr bool kWide = std::is_same_v<T, double>;
  constexpr T kExponent = T(n) / 2;
  std::mt19937_64 random(n + 100);
  std::uniform_real_distribution<double> mantissa(1, 2);
  const int lowest = Limits::min_exponent - Limits::digits;
  double worst = 0;
  double worst_at_end = 0;
  for (int i = 0; i < 300000; ++i) {
    const double end = i % 2 == 0 ? Limits::max_exponent : Limits::min_exponent;
    const int near_end = static_cast<int>(end / kExponent) + static_cast<int>(random() % 7) - 3;
    const int anywhere = lowest + static_cast<int>(random() % static_cast<unsigned>(Limits::max_exponent - lowest));
    const int exponent = std::clamp(i % 3 == 0 ? near_end : anywhere, lowest, Limits::max_exponent - 1);
    T x = std::ldexp(static_cast<T>(mantissa(random)), exponent);
    x = n % 2 == 0 && i % 5 == 0 ? -x : x;
    if (x == 0 || std::isinf(x)) {
      continue;
    }
    const T actual = pow(x, kExponent);
    const long double expected = half_power_of(x, n);
    ASSERT_EQ(std::isinf(actual), std::isinf(static_cast<T>(expected))) << x << " ^ " << kExponent;
    if (std::isinf(actual)) {
      ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << x << " ^ " << kExponent;
      continue;
    }
    const bool at_end = std::fabs(expected) < 4 * static_cast<long double>(Limits::min());
    double& most = at_end ? worst_at_end : worst;
    most = std::max(most, ulp_error(actual, expected));
  }
  EXPECT_LE(worst, n == 2 ? 0 : n == 4 || n == 1 || n == -2 || !kWide ? 0.501 : 0.75) << kExponent;
  EXPECT_LE(worst_at_end, n == 4 || n == 1 || n == -2 || !kWide ? 0.501 : 1) << kExponent;
  for (const T x : {T(0), Limits::infinity(), Limits::quiet_NaN(), T(1), T(2), Limits::min(), Limits::denorm_min(),
                    Limits::max()}) {
    for (const T signed_x : {x, -x}) {
      const T actual = pow(signed_x, kExponent);
      const T expected = std::pow(signed_x, kExponent);
      EXPECT_EQ(std::isnan(actual), std::isnan(expected)) << signed_x << " ^ " << kExponent;
      EXPECT_TRUE(std::isnan(expected) ||
                  (std::signbit(actual) == std::signbit(expected) &&
                   (actual == expected || std::fabs(actual / expected - 1) < 4 * Limits::epsilon())))
          << signed_x << " ^ " << kExponent << " = " << actual << ", not " << expected;
    }
  }
}

TYPED_TEST(ScalarMathOf, PowOfExponentsWithAFormOfTheirOwn) {
  expect_precise_power<-4, TypeParam>();
  expect_precise_power<-3, TypeParam>();
  expect_precise_power<-2, TypeParam>();
  expect_precise_power<-1, TypeParam>();
  expect_precise_power<1, TypeParam>();
  expect_precise_power<2, TypeParam>();
  expect_precise_power<4, TypeParam>();
  expect_precise_power<6, TypeParam>();
  expect_precise_power<8, TypeParam>();
}

TYPED_TEST(ScalarMathOf, PowKnowsWhichExponentsHaveNoFormOfTheirOwn) {
  using T = TypeParam;
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> numbers(-9, 9);
  for (int i = 0; i < 100000; ++i) {
    const T y = static_cast<T>(i % 2 == 0 ? numbers(random) : std::round(4 * numbers(random)) / 4);
    const T x = static_cast<T>(std::exp(numbers(random)));
    if (!may_be_short_power(y)) {
      ASSERT_EQ(pow(x, y), long_pow(x, y)) << x << " ^ " << y;
    }
  }
  EXPECT_FALSE(may_be_short_power(T(2.5) + std::numeric_limits<T>::epsilon() * 2));
  EXPECT_FALSE(may_be_short_power(T(5)));
  EXPECT_FALSE(may_be_short_power(std::numeric_limits<T>::quiet_NaN()));
}

// Quantiles of the standard normal distribution by mpmath: p, and |x| with Phi(x) = p.
TEST(ScalarMath, NormalQuantile) {
  const struct {
    double p, x;
  } known[] = {{0.4999, 2.5066283008800749e-4}, {0.4, 2.5334710313579974e-1}, {0.1, 1.2815515655446004},
               {0.075, 1.4395314709384559},     {0.025, 1.9599639845400542},  {1e-3, 3.0902323061678135},
               {1e-9, 5.9978070150076869},      {1e-11, 6.7060231554951363},  {1e-15, 7.9413453261709968},
               {1e-100, 2.1273453560965324e1}};
  for (const auto& [p, x] : known) {
    EXPECT_NEAR(normal_quantile(0.5 - p, p), x, 2e-15 * x) << p;
    if (p > 1e-10) {
      EXPECT_NEAR(normal_quantile(static_cast<float>(0.5 - p), static_cast<float>(p)), x, 4e-7 * x + 1e-7) << p;
    }
  }
}

}  // namespace
}  // namespace diptych::math
