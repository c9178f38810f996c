// Values of elementwise ops against formulas and the C library: ordinary values, the ends of every type, NaN and
// infinities, in vector loops and strided ones.

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych {
namespace {

using ::testing::ElementsAre;

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

using Unary = std::function<Tensor(const Tensor&)>;
using Scalar = std::function<double(double)>;

template <class T>
Tensor vector_of(const std::vector<T>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}
Tensor integers(const std::vector<std::int64_t>& values) { return vector_of(values); }

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

/// f and g on numbers of many sizes; `bound` relative, plus `absolute`.
void expect_follows(const char* name, const Unary& f, const Scalar& g, double low, double high, double bound = 1e-15,
                    double absolute = 1e-300) {
  const Tensor x = Rng(5).uniform({7, 143}, low, high, DType::float64);
  for (const Tensor& input : {x, transpose(x)}) {
    const auto in = input.to_vector<double>();
    const auto out = f(input).to_vector<double>();
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double expected = g(in[i]);
      ASSERT_NEAR(out[i], expected, absolute + bound * std::fabs(expected)) << name << " of " << in[i];
    }
  }
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

TEST(ElementwiseValues, FollowTheirFormulas) {
  expect_follows(
      "expm1", [](const Tensor& x) { return expm1(x); }, [](double x) { return std::expm1(x); }, -5, 5);
  expect_follows(
      "expm1", [](const Tensor& x) { return expm1(x); }, [](double x) { return std::expm1(x); }, -1e-8, 1e-8);
  expect_follows(
      "log1p", [](const Tensor& x) { return log1p(x); }, [](double x) { return std::log1p(x); }, -0.99, 9);
  expect_follows(
      "log1p", [](const Tensor& x) { return log1p(x); }, [](double x) { return std::log1p(x); }, -1e-8, 1e-8);
  expect_follows(
      "rsqrt", [](const Tensor& x) { return rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); }, 1e-3, 9);
  expect_follows(
      "sin", [](const Tensor& x) { return sin(x); }, [](double x) { return std::sin(x); }, -10, 10);
  expect_follows(
      "cos", [](const Tensor& x) { return cos(x); }, [](double x) { return std::cos(x); }, -10, 10);
  expect_follows(
      "sin", [](const Tensor& x) { return sin(x); }, [](double x) { return std::sin(x); }, -1e12, 1e12);
  expect_follows(
      "cos", [](const Tensor& x) { return cos(x); }, [](double x) { return std::cos(x); }, -1e300, 1e300);
  expect_follows(
      "silu", [](const Tensor& x) { return silu(x); }, [](double x) { return x * sigmoid_of(x); }, -9, 9);
  expect_follows(
      "softplus", [](const Tensor& x) { return softplus(x, 2); },
      [](double x) { return std::log1p(std::exp(2 * x)) / 2; }, -9, 9);
  expect_follows(
      "elu", [](const Tensor& x) { return elu(x, 0.7); }, [](double x) { return x > 0 ? x : 0.7 * std::expm1(x); }, -9,
      9);
  expect_follows(
      "leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.1); }, [](double x) { return x > 0 ? x : 0.1 * x; },
      -9, 9);
  expect_follows(
      "hard_sigmoid", [](const Tensor& x) { return hard_sigmoid(x); },
      [](double x) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); }, -5, 5, 1e-15, 1e-16);
  expect_follows(
      "hard_swish", [](const Tensor& x) { return hard_swish(x); },
      [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }, -5, 5, 1e-15, 1e-15);
  expect_follows(
      "gelu_tanh", [](const Tensor& x) { return gelu_tanh(x); },
      [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3)))); }, -5, 5,
      1e-14, 1e-15);
  expect_follows(
      "clip", [](const Tensor& x) { return clip(x, -1, 2); }, [](double x) { return std::clamp(x, -1.0, 2.0); }, -5, 5);
  expect_follows(
      "floor", [](const Tensor& x) { return floor(x); }, [](double x) { return std::floor(x); }, -9, 9);
  expect_follows(
      "ceil", [](const Tensor& x) { return ceil(x); }, [](double x) { return std::ceil(x); }, -9, 9);
  expect_follows(
      "round", [](const Tensor& x) { return round(x); }, [](double x) { return std::nearbyint(x); }, -9, 9);
}

/// The derivative of each activation's formula by a difference in long double: not by our own gradient check.
TEST(ElementwiseValues, ActivationsHaveTheGradientsOfTheirFormulas) {
  using Long = long double;
  struct Case {
    const char* name;
    Tensor (*f)(const Tensor&);
    Long (*g)(Long);
  };
  const Case cases[] = {
      {"tanh", [](const Tensor& x) { return tanh(x); }, [](Long x) { return std::tanh(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, [](Long x) { return 1 / (1 + std::exp(-x)); }},
      {"relu", [](const Tensor& x) { return relu(x); }, [](Long x) { return x > 0 ? x : 0; }},
      {"gelu", [](const Tensor& x) { return gelu(x); },
       [](Long x) { return x / 2 * std::erfc(-x * std::sqrt(Long(0.5))); }},
      {"gelu_tanh", [](const Tensor& x) { return gelu_tanh(x); },
       [](Long x) {
         return x / 2 * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846L) * (x + 0.044715L * x * x * x)));
       }},
      {"silu", [](const Tensor& x) { return silu(x); }, [](Long x) { return x / (1 + std::exp(-x)); }},
      {"elu", [](const Tensor& x) { return elu(x, 0.5); }, [](Long x) { return x > 0 ? x : std::expm1(x) / 2; }},
      {"softplus", [](const Tensor& x) { return softplus(x, 3); },
       [](Long x) { return std::log1p(std::exp(3 * x)) / 3; }},
  };
  const Tensor x = Rng(6).uniform({200}, -4, 4, DType::float64);
  const auto in = x.to_vector<double>();
  for (const Case& c : cases) {
    const auto out = grad([&](const Tensor& v) { return sum(c.f(v)); })(x).to_vector<double>();
    for (std::size_t i = 0; i < in.size(); ++i) {
      const Long h = 1e-5L;
      const Long expected =
          (8 * (c.g(in[i] + h) - c.g(in[i] - h)) - (c.g(in[i] + 2 * h) - c.g(in[i] - 2 * h))) / (12 * h);
      ASSERT_NEAR(out[i], static_cast<double>(expected), 1e-12) << c.name << " at " << in[i];
    }
  }
}

TEST(ElementwiseValues, GradientsAtTheKinks) {  // as PyTorch has them
  const Tensor x = vector_of<float>({-3, -1, 0, 2, 3});
  const auto by = [&](const Unary& f) {
    return grad([&](const Tensor& v) { return sum(f(v)); })(x).to_vector<float>();
  };
  EXPECT_THAT(by([](const Tensor& v) { return relu(v); }), ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(by([](const Tensor& v) { return leaky_relu(v, 0.5); }), ElementsAre(0.5, 0.5, 0.5, 1, 1));
  EXPECT_THAT(by([](const Tensor& v) { return clip(v, -1, 2); }), ElementsAre(0, 1, 1, 1, 0));
  EXPECT_THAT(by([](const Tensor& v) { return hard_sigmoid(v) * 6; }), ElementsAre(0, 1, 1, 1, 0));
  EXPECT_THAT(by([](const Tensor& v) { return floor(v) + round(v) + sign(v); }), ElementsAre(0, 0, 0, 0, 0));
}

TEST(ElementwiseValues, LargeInputsNeitherOverflowNorVanish) {
  const Tensor x = vector_of<double>({-1000, 1000});
  EXPECT_THAT(softplus(x).to_vector<double>(), ElementsAre(0, 1000));
  EXPECT_THAT(softplus(x, 1e306).to_vector<double>(), ElementsAre(0, 1000));
  EXPECT_THAT(sigmoid(x).to_vector<double>(), ElementsAre(0, 1));
  EXPECT_THAT(elu(x).to_vector<double>(), ElementsAre(-1, 1000));
  EXPECT_THAT(silu(x).to_vector<double>(), ElementsAre(-0.0, 1000));
  EXPECT_THAT(expm1(x).to_vector<double>(), ElementsAre(-1, kInfinite));
  for (const auto f : {+[](const Tensor& v) { return softplus(v); }, +[](const Tensor& v) { return elu(v); },
                       +[](const Tensor& v) { return silu(v); }, +[](const Tensor& v) { return gelu_tanh(v); }}) {
    // Second order too: the branch that isn't taken must not spoil it with inf * 0.
    const auto first = [&](const Tensor& v) { return grad([&](const Tensor& u) { return sum(f(u)); })(v); };
    const auto second = grad([&](const Tensor& v) { return sum(first(v)); })(vector_of<double>({-40, 40}));
    for (const double value : second.to_vector<double>()) {
      EXPECT_NEAR(value, 0, 1e-12);
    }
  }
}

TEST(ElementwiseValues, RoundTakesTiesToEven) {
  const Tensor x = vector_of<float>({-2.5F, -1.5F, -0.5F, -0.0F, 0.5F, 1.5F, 2.5F, 8388609.0F, 0.49999997F});
  EXPECT_THAT(round(x).to_vector<float>(), ElementsAre(-2, -2, -0.0F, -0.0F, 0, 2, 2, 8388609.0F, 0));
  EXPECT_TRUE(std::signbit(round(x).to_vector<float>()[2]));
  EXPECT_TRUE(std::signbit(ceil(vector_of<float>({-0.5F})).to_vector<float>()[0]));
  EXPECT_EQ(floor(integers({kLeast, kMost})).to_vector<std::int64_t>(), (std::vector<std::int64_t>{kLeast, kMost}));
}

TEST(ElementwiseValues, Classification) {
  const Tensor x = vector_of<double>({0, -1, NAN, kInfinite, -kInfinite, 1e308, 5e-324});
  EXPECT_THAT(isnan(x).to_vector<bool>(), ElementsAre(false, false, true, false, false, false, false));
  EXPECT_THAT(isinf(x).to_vector<bool>(), ElementsAre(false, false, false, true, true, false, false));
  EXPECT_THAT(isfinite(x).to_vector<bool>(), ElementsAre(true, true, false, false, false, true, true));
  EXPECT_THAT(isfinite(cast(x, DType::bfloat16)).to_vector<bool>(),
              ElementsAre(true, true, false, false, false, false, true));
  EXPECT_THAT(isfinite(integers({0, kMost})).to_vector<bool>(), ElementsAre(true, true));
  EXPECT_THAT(isnan(ones({2}, DType::boolean)).to_vector<bool>(), ElementsAre(false, false));
}

/// NaN in the first, a middle and the last lane of a vector loop, and in a rare block of sin.
TEST(ElementwiseValues, NaNComesThroughEveryFunction) {
  const std::pair<const char*, Unary> functions[] = {
      {"expm1", [](const Tensor& x) { return expm1(x); }},
      {"log1p", [](const Tensor& x) { return log1p(x); }},
      {"rsqrt", [](const Tensor& x) { return rsqrt(x); }},
      {"sin", [](const Tensor& x) { return sin(x); }},
      {"cos", [](const Tensor& x) { return cos(x); }},
      {"floor", [](const Tensor& x) { return floor(x); }},
      {"ceil", [](const Tensor& x) { return ceil(x); }},
      {"round", [](const Tensor& x) { return round(x); }},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }},
      {"elu", [](const Tensor& x) { return elu(x); }},
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"gelu_tanh", [](const Tensor& x) { return gelu_tanh(x); }},
      {"hard_sigmoid", [](const Tensor& x) { return hard_sigmoid(x); }},
      {"hard_swish", [](const Tensor& x) { return hard_swish(x); }},
      {"softplus", [](const Tensor& x) { return softplus(x); }},
      {"clip", [](const Tensor& x) { return clip(x, -1, 1); }},
      {"pow", [](const Tensor& x) { return pow(x, 3); }},
      {"pow of 2", [](const Tensor& x) { return pow(2.0, x); }},
      {"remainder", [](const Tensor& x) { return remainder(x, full_like(x, 3)); }},
      {"remainder by", [](const Tensor& x) { return remainder(full_like(x, 3), x); }},
  };
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    for (const auto& [name, f] : functions) {
      for (const double other : {1.0, 1e30}) {
        std::vector<double> values(37, other);
        values[0] = values[17] = values[36] = NAN;
        const auto out = f(cast(vector_of(values), dtype)).to_vector<double>();
        for (const std::size_t i : {0U, 17U, 36U}) {
          EXPECT_TRUE(std::isnan(out[i])) << name << " " << name_of(dtype) << " " << i;
        }
        EXPECT_FALSE(std::isnan(out[5])) << name << " " << name_of(dtype);
      }
    }
  }
}

TEST(ElementwiseValues, InfinitiesAndSignedZeros) {
  const auto at = [](const Unary& f, double x) { return f(full({19}, x, DType::float64)).to_vector<double>()[9]; };
  EXPECT_TRUE(std::isnan(at([](const Tensor& x) { return sin(x); }, kInfinite)));
  EXPECT_TRUE(std::isnan(at([](const Tensor& x) { return cos(x); }, -kInfinite)));
  EXPECT_TRUE(same(at([](const Tensor& x) { return sin(x); }, -0.0), -0.0));
  EXPECT_EQ(at([](const Tensor& x) { return cos(x); }, -0.0), 1);
  EXPECT_TRUE(same(at([](const Tensor& x) { return expm1(x); }, -0.0), -0.0));
  EXPECT_TRUE(same(at([](const Tensor& x) { return log1p(x); }, -0.0), -0.0));
  EXPECT_EQ(at([](const Tensor& x) { return log1p(x); }, -1), -kInfinite);
  EXPECT_TRUE(std::isnan(at([](const Tensor& x) { return log1p(x); }, -1.5)));
  EXPECT_EQ(at([](const Tensor& x) { return log1p(x); }, kInfinite), kInfinite);
  EXPECT_EQ(at([](const Tensor& x) { return expm1(x); }, -kInfinite), -1);
  EXPECT_EQ(at([](const Tensor& x) { return rsqrt(x); }, kInfinite), 0);
  EXPECT_EQ(at([](const Tensor& x) { return rsqrt(x); }, -0.0), -kInfinite);
  EXPECT_EQ(at([](const Tensor& x) { return hard_sigmoid(x); }, kInfinite), 1);
  EXPECT_EQ(at([](const Tensor& x) { return hard_swish(x); }, kInfinite), kInfinite);
  EXPECT_EQ(at([](const Tensor& x) { return softplus(x); }, kInfinite), kInfinite);
  EXPECT_EQ(at([](const Tensor& x) { return softplus(x); }, -kInfinite), 0);
  EXPECT_EQ(at([](const Tensor& x) { return elu(x); }, -kInfinite), -1);
  EXPECT_EQ(at([](const Tensor& x) { return clip(x, -1, 1); }, -kInfinite), -1);
  EXPECT_EQ(at([](const Tensor& x) { return clip(x, -kInfinite, 1); }, -kInfinite), -kInfinite);
}

TEST(Pow, AgreesWithTheCLibraryOnEveryPairOfSpecialValues) {
  const std::vector<double> values = {0.0,    -0.0,   1,       -1,        2,          -2,   0.5,
                                      -0.5,   3,      -3,      kInfinite, -kInfinite, NAN,  1e300,
                                      -1e300, 1e-310, -1e-310, 2.5,       -2.5,       1e15, 4503599627370497.0};
  for (const double a : values) {
    for (const double b : values) {
      // Long enough for vectors, the other elements ordinary.
      std::vector<double> as(21, 1.5);
      std::vector<double> bs(21, 2.5);
      as[13] = a;
      bs[13] = b;
      const double actual = pow(vector_of(as), vector_of(bs)).to_vector<double>()[13];
      const double expected = std::pow(a, b);
      EXPECT_TRUE(same(actual, expected) || std::fabs(actual - expected) <= 4e-16 * std::fabs(expected))
          << a << " ^ " << b << " = " << actual << ", not " << expected;
      const float narrow = pow(full({9}, a), full({9}, b)).to_vector<float>()[4];
      const float narrow_expected = std::pow(static_cast<float>(a), static_cast<float>(b));
      EXPECT_TRUE(same(narrow, narrow_expected) ||
                  std::fabs(narrow - narrow_expected) <= 1.2e-7F * std::fabs(narrow_expected))
          << a << " ^ " << b << " = " << narrow << ", not " << narrow_expected;
    }
  }
}

TEST(Pow, IntegersWrapAndNegativePowersAreZero) {
  const Tensor base = integers({2, -2, 3, 10, -1, -1, 1, 2, 0, 0, -3});
  const Tensor exponent = integers({10, 3, 0, 20, -3, -4, -9, -1, 0, -1, 41});
  std::int64_t wrapped = 1;
  for (int i = 0; i < 41; ++i) {
    wrapped = static_cast<std::int64_t>(static_cast<std::uint64_t>(wrapped) * static_cast<std::uint64_t>(-3));
  }
  EXPECT_THAT(pow(base, exponent).to_vector<std::int64_t>(),
              ElementsAre(1024, -8, 1, 7766279631452241920, -1, 1, 1, 0, 1, 0, wrapped));
  EXPECT_EQ(pow(full({1}, 3, DType::uint8), full({1}, 6, DType::uint8)).item(), 729 % 256);
  EXPECT_EQ(pow(full({1}, 200, DType::uint8), full({1}, 2, DType::uint8)).item(), 40000 % 256);
}

TEST(Pow, NumbersTakeTheOtherSidesType) {
  const Tensor x = vector_of<float>({1, 2, 3});
  EXPECT_THAT(pow(x, 2).to_vector<float>(), ElementsAre(1, 4, 9));
  EXPECT_THAT(pow(x, -1).to_vector<float>(), ElementsAre(1, 0.5F, 1.0F / 3));
  EXPECT_THAT(pow(2, x).to_vector<float>(), ElementsAre(2, 4, 8));
  EXPECT_EQ(pow(x, 0.5).dtype(), DType::float32);
  EXPECT_EQ(pow(integers({4}), 0.5).dtype(), DType::float32);
  EXPECT_EQ(pow(integers({4}), 3).dtype(), DType::int64);
  EXPECT_EQ(pow(integers({4}), x).dtype(), DType::float32);
}

TEST(Pow, GradientsAtZero) {  // as PyTorch: no NaN from 0 * log(0) or 0 * 0^-1
  const Tensor zero = vector_of<double>({0, 0, 0});
  const Tensor exponent = vector_of<double>({0, 1, 3});
  auto f = value_and_grad([](const Tensor& a, const Tensor& b) { return sum(pow(a, b)); }, {.arguments = {0, 1}});
  const auto result = f(zero, exponent);
  EXPECT_THAT(result.arguments[0].to_vector<double>(), ElementsAre(0, 1, 0));
  EXPECT_THAT(result.arguments[1].to_vector<double>(), ElementsAre(0, 0, 0));
}

double python_mod(double a, double b) {
  double r = std::fmod(a, b);
  if (r != 0 && (r < 0) != (b < 0)) {
    r += b;
  }
  return r == 0 ? std::copysign(0.0, b) : r;
}

TEST(Quotient, IsTowardsZero) {
  EXPECT_THAT(quotient(integers({7, -7, 7, -7, 0, kLeast, kLeast, kMost}), integers({3, 3, -3, -3, 3, -1, 1, -1}))
                  .to_vector<std::int64_t>(),
              ElementsAre(2, -2, -2, 2, 0, kLeast, kLeast, -kMost));
  EXPECT_EQ(quotient(full({1}, 200, DType::uint8), full({1}, 7, DType::uint8)).item(), 200 / 7);
  EXPECT_THROW(quotient(integers({1}), integers({0})), Error);
  EXPECT_THROW(quotient(full({1}, 1.0), full({1}, 1.0)), DTypeError);
}

TEST(Remainder, HasTheSignOfTheDivisor) {
  const Tensor a = vector_of<float>({7, -7, 7, -7, 6, -6, 0.5F});
  const Tensor b = vector_of<float>({3, 3, -3, -3, 3, 3, -2});
  EXPECT_THAT(remainder(a, b).to_vector<float>(), ElementsAre(1, 2, -2, -1, 0, 0, -1.5F));
  EXPECT_THAT(remainder(integers({7, -7, 7, -7, 6, kLeast, kLeast, 5}), integers({3, 3, -3, -3, 3, -1, 7, kMost}))
                  .to_vector<std::int64_t>(),
              ElementsAre(1, 2, -2, -1, 0, 0, 6, 5));
  EXPECT_EQ(remainder(full({1}, 200, DType::uint8), full({1}, 7, DType::uint8)).item(), 200 % 7);
}

TEST(Remainder, IsExactForEveryPairOfSizes) {
  Rng rng(7);
  for (const auto& [range_a, range_b] :
       {std::pair{1.0, 1.0}, {1e3, 1.0}, {1e9, 1e-3}, {1e16, 1.0}, {1e300, 1e-300}, {1e-310, 1e-312}, {1.0, 1e300}}) {
    const Tensor a = rng.uniform({700}, -range_a, range_a, DType::float64);
    const Tensor b = rng.uniform({700}, -range_b, range_b, DType::float64);
    const auto as = a.to_vector<double>();
    const auto bs = b.to_vector<double>();
    const auto out = remainder(a, b).to_vector<double>();
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_TRUE(same(out[i], python_mod(as[i], bs[i]))) << as[i] << " % " << bs[i] << " = " << out[i];
    }
  }
  // Quotients that are whole, or just short of it: the rounded quotient is one too high.
  for (int k = 1; k < 2000; ++k) {
    for (const double b : {0.1, 0.3, 1.0 / 3, -0.7}) {
      for (const double a : {k * b, std::nextafter(k * b, 0.0), std::nextafter(k * b, kInfinite), -k * b}) {
        ASSERT_TRUE(same(remainder(full({}, a, DType::float64), full({}, b, DType::float64)).item(), python_mod(a, b)))
            << a << " % " << b;
      }
    }
  }
}

TEST(Remainder, SpecialValues) {
  const std::vector<double> values = {0.0, -0.0, 1, -1, kInfinite, -kInfinite, NAN, 1e300, -1e-310};
  for (const double a : values) {
    for (const double b : values) {
      const double actual =
          remainder(full({9}, a, DType::float64), full({9}, b, DType::float64)).to_vector<double>()[3];
      EXPECT_TRUE(same(actual, python_mod(a, b)) || (std::isnan(actual) && std::isnan(python_mod(a, b))))
          << a << " % " << b << " = " << actual;
    }
  }
}

TEST(Remainder, IntegerZeroIsAnErrorInBothModes) {
  const Tensor a = integers({1, 2, 3});
  const Tensor b = integers({1, 0, 3});
  EXPECT_THROW(remainder(a, b), Error);
  auto f = jit([](const Tensor& x, const Tensor& y) { return remainder(x, y); });
  EXPECT_THROW(f(a, b), Error);
  EXPECT_THAT(f(a, a).to_vector<std::int64_t>(), ElementsAre(0, 0, 0));
  EXPECT_THROW(remainder(full({2}, 5, DType::uint8), zeros({2}, DType::uint8)), Error);
}

TEST(Clip, IntegersAndTheirBounds) {
  const Tensor x = integers({kLeast, -5, 0, 5, kMost});
  EXPECT_THAT(clip(x, -2, 3).to_vector<std::int64_t>(), ElementsAre(-2, -2, 0, 3, 3));
  EXPECT_THAT(clip(x, -kInfinite, 1e300).to_vector<std::int64_t>(), ElementsAre(kLeast, -5, 0, 5, kMost));
  EXPECT_EQ(clip(x, -0.5, 3).dtype(), DType::float32);
  EXPECT_THAT(clip(full({2}, 200, DType::uint8), -3, 100).to_vector<int>(), ElementsAre(100, 100));
  EXPECT_THAT(clip(vector_of<float>({1, 5}), 3, 2).to_vector<float>(), ElementsAre(2, 2)) << "the upper bound wins";
}

TEST(Clip, ParametersThatMakeNoSenseAreRefused) {
  const Tensor x = ones({2});
  EXPECT_THROW(clip(x, NAN, 1), Error);
  EXPECT_THROW(clip(x, 0, NAN), Error);
  EXPECT_THROW(leaky_relu(x, kInfinite), Error);
  EXPECT_THROW(elu(x, NAN), Error);
  EXPECT_THROW(softplus(x, 0), Error);
  EXPECT_THROW(softplus(x, -1), Error);
  EXPECT_THROW(softplus(x, kInfinite), Error);
  EXPECT_THROW(sin(integers({1})), DTypeError);
  EXPECT_THROW(pow(ones({2}, DType::boolean), ones({2}, DType::boolean)), DTypeError);
}

TEST(Cast, SaturatesAtTheEndsOfEveryIntegerType) {
  const Tensor x = vector_of<double>({-1e300, -1.9, -0.5, 0, 127.6, 128, 200, 255.9, 256, 1e300, NAN});
  EXPECT_THAT(cast(x, DType::uint8).to_vector<int>(), ElementsAre(0, 0, 0, 0, 127, 128, 200, 255, 255, 255, 0));
  EXPECT_THAT(cast(x, DType::int32).to_vector<int>(),
              ElementsAre(INT32_MIN, -1, 0, 0, 127, 128, 200, 255, 256, INT32_MAX, 0));
  EXPECT_THAT(cast(vector_of<float>({9.3e18F, -9.3e18F, 9.2e18F}), DType::int64).to_vector<std::int64_t>(),
              ElementsAre(kMost, kLeast, static_cast<std::int64_t>(9.2e18F)));
  EXPECT_THAT(cast(cast(x, DType::bfloat16), DType::uint8).to_vector<int>(),
              ElementsAre(0, 0, 0, 0, 127, 128, 200, 255, 255, 255, 0));
}

TEST(Logical, TruthTables) {
  const Tensor a = Tensor::from(std::vector<bool>{false, false, true, true}, {4});
  const Tensor b = Tensor::from(std::vector<bool>{false, true, false, true}, {4});
  EXPECT_THAT(logical_and(a, b).to_vector<bool>(), ElementsAre(false, false, false, true));
  EXPECT_THAT(logical_or(a, b).to_vector<bool>(), ElementsAre(false, true, true, true));
  EXPECT_THAT(logical_xor(a, b).to_vector<bool>(), ElementsAre(false, true, true, false));
  EXPECT_THAT(logical_not(a).to_vector<bool>(), ElementsAre(true, true, false, false));
}

}  // namespace
}  // namespace diptych
