// Random ops: distributions against their definitions, and the contract on what the numbers depend on. Statistical
// bounds are five standard errors, or the 1e-6 quantile; seeds are fixed, so they can't fail by chance.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "framework/core/isa.h"
#include "framework/diptych.h"
#include "framework/dispatch/apply.h"
#include "tests/support/with_isa.h"

namespace diptych {
namespace {

constexpr int kCount = 200000;

struct Moments {
  double mean = 0;
  double variance = 0;
  double skew = 0;
  double kurtosis = 0;
};
Moments moments_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  Moments m;
  m.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  for (const double value : values) {
    const double d = value - m.mean;
    m.variance += d * d / n;
    m.skew += d * d * d / n;
    m.kurtosis += d * d * d * d / n;
  }
  m.skew /= std::pow(m.variance, 1.5);
  m.kurtosis /= m.variance * m.variance;
  return m;
}

/// The largest distance between the empirical and the given distribution function [Kolmogorov].
double ks_distance(std::vector<double> values, const std::function<double(double)>& cdf) {
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double f = cdf(values[i]);
    worst = std::max({worst, f - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - f});
  }
  return worst;
}
/// P(distance > d) ~ 2 exp(-2 n d^2) = 1e-6.
double ks_bound(double n) { return std::sqrt(std::log(2e6) / (2 * n)); }

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

/// Neighbouring elements must not be correlated: the serial correlation at several lags, those of the layout among
/// them.
void expect_uncorrelated(const std::vector<double>& values) {
  const Moments m = moments_of(values);
  for (const std::size_t lag : {1U, 2U, 4U, 15U, 16U, 17U, 32U, 48U, 64U, 1024U}) {
    double sum = 0;
    for (std::size_t i = 0; i + lag < values.size(); ++i) {
      sum += (values[i] - m.mean) * (values[i + lag] - m.mean);
    }
    const auto pairs = static_cast<double>(values.size() - lag);
    EXPECT_LT(std::fabs(sum / pairs / m.variance), 5 / std::sqrt(pairs)) << "lag " << lag;
  }
}

class Floating : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Random, Floating, ::testing::Values(DType::float32, DType::float64),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

TEST_P(Floating, UniformIsUniform) {
  const auto values = uniform({kCount}, -3, 5, GetParam(), Generator(1)).to_vector<double>();
  for (const double value : values) {
    ASSERT_TRUE(value >= -3 && value < 5);
  }
  EXPECT_LT(ks_distance(values, [](double x) { return (x + 3) / 8; }), ks_bound(kCount));
  const Moments m = moments_of(values);
  EXPECT_NEAR(m.mean, 1, 5 * std::sqrt(64.0 / 12 / kCount));
  EXPECT_NEAR(m.variance, 64.0 / 12, 5 * (64.0 / 12) * std::sqrt(0.8 / kCount));
  expect_uncorrelated(values);
}

TEST_P(Floating, NormalIsNormal) {
  const auto values = normal({kCount}, 2, 3, GetParam(), Generator(2)).to_vector<double>();
  EXPECT_LT(ks_distance(values, [](double x) { return normal_cdf((x - 2) / 3); }), ks_bound(kCount));
  const Moments m = moments_of(values);
  EXPECT_NEAR(m.mean, 2, 5 * 3 / std::sqrt(kCount));
  EXPECT_NEAR(m.variance, 9, 5 * 9 * std::sqrt(2.0 / kCount));
  EXPECT_NEAR(m.skew, 0, 5 * std::sqrt(6.0 / kCount));
  EXPECT_NEAR(m.kurtosis, 3, 5 * std::sqrt(24.0 / kCount));
  expect_uncorrelated(values);
}

TEST_P(Floating, TruncatedNormalKeepsItsBoundsAndShape) {
  struct Case {
    double mean, deviation, low, high;
  };
  const double inf = std::numeric_limits<double>::infinity();
  for (const Case& c : {Case{0, 1, -2, 2}, Case{1, 2, 0, 9}, Case{0, 1, 3, 4}, Case{0, 1, -inf, -5}, Case{0, 1, 5, 5.5},
                        Case{0, 1, 0.5, inf}, Case{0, 0.02, -0.04, 0.04}}) {
    const auto values = truncated_normal({kCount / 4}, c.mean, c.deviation, c.low, c.high, GetParam(), Generator(3))
                            .to_vector<double>();
    const auto cdf = [&](double x) { return normal_cdf((x - c.mean) / c.deviation); };
    // In the upper tail differences of the distribution function cancel: turn it around.
    const auto upper = [&](double x) { return normal_cdf(-(x - c.mean) / c.deviation); };
    const double rounding = GetParam() == DType::float32 ? 1e-6 : 0;
    for (const double value : values) {
      ASSERT_GE(value, c.low - rounding);
      ASSERT_LE(value, c.high + rounding);
    }
    EXPECT_LT(ks_distance(values,
                          [&](double x) {
                            return c.low > c.mean ? (upper(c.low) - upper(x)) / (upper(c.low) - upper(c.high))
                                                  : (cdf(x) - cdf(c.low)) / (cdf(c.high) - cdf(c.low));
                          }),
              ks_bound(kCount / 4.0) + rounding)
        << c.low << " " << c.high;
  }
  // Where a double has no probability left, the nearer bound is what remains.
  for (const double value : truncated_normal({100}, 0, 1, 50, 60, GetParam(), Generator(3)).to_vector<double>()) {
    EXPECT_EQ(value, 50);
  }
}

TEST(Random, NormalTailsAreFineAndFinite) {
  const auto values = randn({1 << 22}, DType::float32, Generator(4)).to_vector<float>();
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  // The extremes of 4 million are expected at 5.1; one element in 2^32 lies at 6.3, and nothing beyond.
  EXPECT_GT(*most, 4.5);
  EXPECT_LT(*most, 6.4);
  EXPECT_LT(*least, -4.5);
  EXPECT_GT(*least, -6.4);
}

TEST(Random, IntegersAreEvenlyLikely) {
  for (const DType dtype : {DType::int64, DType::int32, DType::uint8}) {
    const auto values = randint(3, 13, {kCount}, dtype, Generator(5)).to_vector<std::int64_t>();
    std::array<int, 10> counts{};
    for (const std::int64_t value : values) {
      ASSERT_TRUE(value >= 3 && value < 13);
      ++counts[static_cast<std::size_t>(value - 3)];
    }
    double chi_square = 0;
    for (const int count : counts) {
      chi_square += std::pow(count - kCount / 10.0, 2) / (kCount / 10.0);
    }
    EXPECT_LT(chi_square, 45.0);  // 9 degrees of freedom: exceeded with probability 1e-6
  }
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const auto wide = randint(least, most, {1000}, DType::int64, Generator(6)).to_vector<std::int64_t>();
  EXPECT_GT(std::count_if(wide.begin(), wide.end(), [](std::int64_t v) { return v > 0; }), 400);
  EXPECT_GT(std::count_if(wide.begin(), wide.end(), [](std::int64_t v) { return v < 0; }), 400);
}

TEST(Random, PermutationsHoldEveryNumberAndReachEveryOrder) {
  const auto order = randperm(1000, Generator(7)).to_vector<std::int64_t>();
  EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 1000U);
  EXPECT_EQ(*std::max_element(order.begin(), order.end()), 999);
  const Generator generator(8);
  std::map<std::vector<std::int64_t>, int> counts;
  for (int i = 0; i < 24000; ++i) {
    ++counts[randperm(4, generator).to_vector<std::int64_t>()];
  }
  ASSERT_EQ(counts.size(), 24U);
  double chi_square = 0;
  for (const auto& [permutation, count] : counts) {
    chi_square += std::pow(count - 1000, 2) / 1000.0;
  }
  EXPECT_LT(chi_square, 72.0);  // 23 degrees of freedom, 1e-6
}

TEST(Random, BernoulliHasItsProbability) {
  for (const double p : {0.0, 1e-3, 0.3, 0.5, 0.999, 1.0}) {
    for (const Tensor& draw : {bernoulli({kCount}, p, DType::boolean, Generator(9)),
                               bernoulli(full({kCount}, p, DType::float64), Generator(9))}) {
      const double mean = sum(cast(draw, DType::float64)).item() / kCount;
      EXPECT_NEAR(mean, p, 5 * std::sqrt(p * (1 - p) / kCount)) << p;
    }
  }
  const Tensor p = Tensor::from({0.0, 1.0, 0.0, 1.0}, {4});
  EXPECT_EQ(bernoulli(p, Generator(10)).to_vector<double>(), (std::vector<double>{0, 1, 0, 1}));
}

/// All draws, to compare them under different circumstances.
std::vector<Tensor> draws(const Shape& shape, const Generator& g) {
  return {rand(shape, DType::float32, g),         rand(shape, DType::float64, g),
          rand(shape, DType::bfloat16, g),        randn(shape, DType::float32, g),
          randn(shape, DType::float64, g),        truncated_normal(shape, 0, 1, -2, 2, DType::float32, g),
          randint(-9, 9, shape, DType::int64, g), bernoulli(shape, 0.4, DType::boolean, g),
          bernoulli(full(shape, 0.4), g)};
}
void expect_same_draws(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(a[i], b[i])) << "draw " << i << "\n" << to_string(a[i]) << "\n" << to_string(b[i]);
  }
}

TEST(Random, KnownAnswersOfPhilox) {
  // Element 0 is the first word of block 0; element 16 its second; element 1 that of block 1. Random123's vector for a
  // counter and key of zeros.
  const std::array<std::uint32_t, 4> words = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  const auto values = rand({1100}, DType::float32, Generator(0)).to_vector<float>();
  for (std::size_t w = 0; w < 4; ++w) {
    EXPECT_EQ(values[16 * w], static_cast<float>(words[w] >> 8U) * 0x1p-24F);
  }
  const Generator generator(0xA4093822299F31D0);
  rand({1}, DType::float32, generator);  // the second draw: counter 1
  const auto second = rand({1100}, DType::float32, generator).to_vector<float>();
  for (const std::uint32_t i : {0U, 7U, 63U, 64U, 1023U, 1024U, 1099U}) {
    const auto block = philox({i / 64 * 16 + i % 16, 0, 1, 0}, {0x299F31D0, 0xA4093822});
    EXPECT_EQ(second[i], static_cast<float>(block[i / 16 % 4] >> 8U) * 0x1p-24F) << i;
  }
}

TEST(Random, AnElementDependsOnItsPositionAlone) {
  const std::vector<Tensor> longest = draws({5000}, Generator(11));
  for (const std::int64_t length : {1, 15, 16, 17, 33, 64, 100, 1023, 1024, 1025, 2049}) {
    const std::vector<Tensor> shorter = draws({length}, Generator(11));
    for (std::size_t i = 0; i < shorter.size(); ++i) {
      EXPECT_TRUE(bitwise_equal(contiguous(slice(longest[i], 0, 0, length)), shorter[i])) << i << " " << length;
    }
  }
  const std::vector<Tensor> square = draws({50, 100}, Generator(11));
  for (std::size_t i = 0; i < square.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(reshape(square[i], {5000}), longest[i]));
  }
}

TEST(Random, EveryInstructionSetDrawsTheSame) {
  const testing::WithIsa restores(Isa::generic);
  const std::vector<Tensor> expected = draws({3001}, Generator(12));
  for (int isa = 1; isa < kIsaCount && is_supported(static_cast<Isa>(isa)); ++isa) {
    set_isa(static_cast<Isa>(isa));
    expect_same_draws(expected, draws({3001}, Generator(12)));
  }
}

TEST(Random, DrawsDifferAndSeedsDiffer) {
  const Generator generator(13);
  const Tensor first = randn({64}, DType::float32, generator);
  const Tensor second = randn({64}, DType::float32, generator);
  EXPECT_FALSE(bitwise_equal(first, second));
  EXPECT_FALSE(bitwise_equal(first, randn({64}, DType::float32, Generator(14))));
  EXPECT_FALSE(bitwise_equal(first, randn({64}, DType::float32, Generator(13 + (std::uint64_t{1} << 32U)))));
  generator.manual_seed(13);
  EXPECT_TRUE(bitwise_equal(first, randn({64}, DType::float32, generator)));
}

TEST(Random, TheDefaultGeneratorFollowsItsSeed) {
  manual_seed(15);
  const Tensor a = rand({5});
  const Tensor b = rand({5});
  manual_seed(15);
  EXPECT_TRUE(bitwise_equal(a, rand({5})));
  EXPECT_TRUE(bitwise_equal(b, rand({5})));
}

TEST(Random, StateCanBeSavedAndRestored) {
  const Generator generator(16);
  randn({10}, DType::float32, generator);
  const std::vector<std::int64_t> saved = generator.state().value().to_vector<std::int64_t>();
  EXPECT_EQ(saved, (std::vector<std::int64_t>{16, 1}));
  const std::vector<Tensor> before = draws({100}, generator);
  Variable(generator.state()).assign(Tensor::from(saved, {2}));
  expect_same_draws(before, draws({100}, generator));
}

TEST(Random, EagerAndGraphDrawTheSameOverManyCalls) {
  for (const bool optimised : {false, true}) {
    graph::JitOptions options;
    options.pipeline = optimised ? passes::PipelineOptions{} : passes::PipelineOptions::none();
    const Generator eager(17);
    const Generator captured(17);
    const auto program = [](const Tensor& x, const Generator& generator) {
      const Tensor factor = randn({33}, DType::float32, generator);  // not in one expression: C++ has no order there
      return factor * x + rand({33}, DType::float32, generator);
    };
    auto f = jit([&](const Tensor& x) { return program(x, captured); }, options);
    const Tensor x = full({33}, 2.0);
    for (int call = 0; call < 5; ++call) {
      EXPECT_TRUE(bitwise_equal(program(x, eager), f(x))) << "call " << call;
    }
    EXPECT_TRUE(bitwise_equal(eager.state().value(), captured.state().value()));
    EXPECT_EQ(captured.state().value().to_vector<std::int64_t>()[1], 10);
  }
}

TEST(Random, TheDefaultGeneratorMayBeMetFirstInsideACapture) {
  std::thread([] {
    auto f = jit([](const Tensor& x) { return x + rand({4}); });
    const Tensor x = zeros({4});
    const Tensor first = f(x);
    const Tensor second = f(x);
    EXPECT_FALSE(bitwise_equal(first, second));
    manual_seed(0);
    EXPECT_TRUE(bitwise_equal(first, f(x)));
    EXPECT_TRUE(bitwise_equal(second, rand({4})));
  }).join();
}

TEST(Random, ParametersThatMakeNoSenseAreRefused) {
  const Generator g(18);
  EXPECT_THROW(uniform({2}, 1, 0, DType::float32, g), Error);
  EXPECT_THROW(uniform({2}, 0, NAN, DType::float32, g), Error);
  EXPECT_THROW(uniform({2}, 0, 1, DType::int32, g), DTypeError);
  EXPECT_THROW(uniform({-1}, 0, 1, DType::float32, g), ShapeError);
  EXPECT_THROW(uniform({std::int64_t{1} << 40, std::int64_t{1} << 40}, 0, 1, DType::float32, g), ShapeError);
  EXPECT_THROW(normal({2}, 0, -1, DType::float32, g), Error);
  EXPECT_THROW(truncated_normal({2}, 0, 0, -1, 1, DType::float32, g), Error);
  EXPECT_THROW(truncated_normal({2}, 0, 1, 1, 1, DType::float32, g), Error);
  EXPECT_THROW(randint(5, 5, {2}, DType::int64, g), Error);
  EXPECT_THROW(randint(0, 257, {2}, DType::uint8, g), Error);
  EXPECT_THROW(randint(0, 2, {2}, DType::float32, g), DTypeError);
  EXPECT_THROW(randperm(-1, g), ShapeError);
  EXPECT_THROW(bernoulli({2}, 1.5, DType::float32, g), Error);
  EXPECT_THROW(bernoulli(full({2}, -0.5), g), Error);
  EXPECT_THROW(bernoulli(full({2}, NAN), g), Error);
  EXPECT_THROW(dropout(ones({2}), 1.01, true, g), Error);
  EXPECT_THROW(dropout(ones({2}), NAN, true, g), Error);
  EXPECT_THROW(dropout(ones({2}, DType::int64), 0.5, true, g), DTypeError);
  const Tensor no_state = zeros({3}, DType::int64);
  const std::array<const Tensor*, 1> inputs{&no_state};
  const OpDef& op = *find_op("random_uniform");
  const AttributeValue defaults(op.attributes, nullptr);
  EXPECT_THROW(apply(op, inputs, defaults.get(), Location::current()), ShapeError);
}

TEST(Dropout, KeepsTheExpectationAndTheScale) {
  const auto values = dropout(ones({kCount}), 0.2, true, Generator(19)).to_vector<float>();
  std::size_t kept = 0;
  for (const float value : values) {
    EXPECT_TRUE(value == 0 || value == 1.25F);
    kept += value != 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(kept) / kCount, 0.8, 5 * std::sqrt(0.16 / kCount));
}

TEST(Dropout, EdgesOfTheProbability) {
  const Generator generator(20);
  const Tensor x = Tensor::from({1.0F, NAN, std::numeric_limits<float>::infinity(), -2.0F}, {4});
  EXPECT_EQ(dropout(x, 0, true, generator).body(), x.body());
  EXPECT_EQ(dropout(x, 0.7, false, generator).body(), x.body());
  EXPECT_EQ(generator.state().value().to_vector<std::int64_t>()[1], 0) << "nothing was drawn";
  EXPECT_EQ(dropout(x, 1, true, generator).to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(dropout(zeros({0, 3}), 0.5, true, generator).shape(), (Shape{0, 3}));
}

TEST(Dropout, DropsNaNAndInfinityToo) {
  const Tensor x = full({1000}, NAN);
  const auto values = dropout(x, 0.5, true, Generator(21)).to_vector<float>();
  const auto zeros = std::count(values.begin(), values.end(), 0.0F);
  EXPECT_GT(zeros, 400);
  EXPECT_LT(zeros, 600);
}

TEST(Dropout, TheGradientGoesThroughTheSameMask) {
  const Generator generator(22);
  const Tensor x = Rng(1).normal({50}, 0, 1, DType::float64) + 10.0;
  auto f = value_and_grad([&](const Tensor& v) { return sum(dropout(v, 0.4, true, generator) * v); });
  const Tensor gradient = f(x).arguments[0];
  const auto kept = bernoulli({50}, 1 - 0.4, DType::boolean, Generator(22)).to_vector<bool>();
  const auto values = x.to_vector<double>();
  for (std::size_t i = 0; i < 50; ++i) {  // d/dv of m v^2 / (1 - p)
    EXPECT_NEAR(gradient.to_vector<double>()[i], kept[i] ? 2 * values[i] / 0.6 : 0, 1e-12);
  }
}

TEST(Dropout, TrainingIsTheSameInEagerAndGraph) {
  const Tensor x = Rng(2).normal({16, 20});
  const auto train = [&](bool graph) {
    const Generator generator(23);
    Variable w(Rng(3).normal({20, 20}, 0, 0.2));
    auto step = [&](const Tensor& input) {
      auto f = value_and_grad(
          [&](const Tensor& v) { return mean(square(matmul(dropout(relu(matmul(v, w)), 0.3, true, generator), w))); },
          {.weights = {w}});
      auto result = f(input);
      w.assign(w.value() - result.weights[0] * 0.1);
      return result.value;
    };
    auto compiled = jit(step);
    std::vector<Tensor> losses;
    for (int i = 0; i < 6; ++i) {
      losses.push_back(graph ? compiled(x) : step(x));
    }
    losses.push_back(w.value());
    losses.push_back(generator.state().value());
    return losses;
  };
  expect_same_draws(train(false), train(true));
}

}  // namespace
}  // namespace diptych
