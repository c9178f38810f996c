// Losses against their definitions in plain double loops, in every option; far ends of the range; wrong inputs.

#include <algorithm>

#include "tests/ops/reference.h"
#include "tests/support/with_isa.h"

namespace diptych::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Cross entropy of [N, C] logits with target rows, weights of the classes, and what each row counts for.
double cross_entropy_of(const std::vector<double>& z, const std::vector<double>& target,
                        const std::vector<double>& weight) {
  double total = 0;
  for (const double x : z) {
    total += std::exp(x);
  }
  double loss = 0;
  for (std::size_t i = 0; i < z.size(); ++i) {
    loss -= weight[i] * target[i] * (z[i] - std::log(total));
  }
  return loss;
}

struct Problem {
  Tensor logits, labels;
  std::vector<double> losses;  ///< of each row, unreduced
  double counted = 0;          ///< what the mean divides by
};

Problem problem(double smoothing, std::optional<std::int64_t> ignore, bool weighted) {
  constexpr std::int64_t kRows = 7;
  constexpr std::int64_t kClasses = 5;
  Rng rng(71);
  Problem p{rng.normal({kRows, kClasses}, 0, 2, DType::float64), rng.integers({kRows}, 0, kClasses), {}, 0};
  const std::vector<double> z = doubles(p.logits);
  const std::vector<std::int64_t> labels = ints(p.labels);
  for (std::size_t row = 0; row < kRows; ++row) {
    std::vector<double> target(kClasses, smoothing / kClasses);
    std::vector<double> weight(kClasses, 1);
    for (std::size_t c = 0; weighted && c < kClasses; ++c) {
      weight[c] = 0.5 + 0.25 * static_cast<double>(c);
    }
    const auto label = static_cast<std::size_t>(labels[row]);
    target[label] += 1 - smoothing;
    const bool counts = !ignore || labels[row] != *ignore;
    const auto begin = z.begin() + static_cast<std::ptrdiff_t>(row * kClasses);
    p.losses.push_back(counts ? cross_entropy_of({begin, begin + kClasses}, target, weight) : 0);
    p.counted += counts ? weight[label] : 0;
  }
  return p;
}

double total_of(const std::vector<double>& v) {
  double total = 0;
  for (const double x : v) {
    total += x;
  }
  return total;
}

TEST(CrossEntropy, FollowsItsDefinitionInEveryOption) {
  const Tensor weight = f64({0.5, 0.75, 1, 1.25, 1.5}, {5});
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    for (const bool ignoring : {false, true}) {
      for (const bool weighted : {false, true}) {
        CrossEntropyOptions options;
        options.label_smoothing = smoothing;
        options.ignore_index = ignoring ? std::optional<std::int64_t>(3) : std::nullopt;
        options.weight = weighted ? weight : Tensor();
        const Problem p = problem(smoothing, options.ignore_index, weighted);
        options.reduction = Reduction::none;
        const auto losses = doubles(cross_entropy(p.logits, p.labels, options));
        for (std::size_t i = 0; i < losses.size(); ++i) {
          EXPECT_NEAR(losses[i], p.losses[i], 1e-13) << smoothing << ignoring << weighted;
        }
        options.reduction = Reduction::sum;
        EXPECT_NEAR(cross_entropy(p.logits, p.labels, options).item(), total_of(p.losses), 1e-12);
        options.reduction = Reduction::mean;
        EXPECT_NEAR(cross_entropy(p.logits, p.labels, options).item(), total_of(p.losses) / p.counted, 1e-13);
      }
    }
  }
}

TEST(CrossEntropy, GradientIsProbabilityMinusTarget) {
  const Tensor logits = f64({std::log(1), std::log(2), std::log(5), 0, 0, 0}, {2, 3});
  auto f = grad([](const Tensor& z) { return cross_entropy(z, i64({2, 0}, {2}), {.reduction = Reduction::sum}); });
  const auto gradient = doubles(f(logits));
  const std::vector<double> expected{1.0 / 8, 2.0 / 8, 5.0 / 8 - 1, 1.0 / 3 - 1, 1.0 / 3, 1.0 / 3};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(gradient[i], expected[i], 1e-15);
  }
}

TEST(CrossEntropy, FusedAndComposedAgreeWithTheirGradients) {
  Rng rng(72);
  const Tensor logits = rng.normal({9, 33}, 0, 3, DType::float64);
  const Tensor labels = rng.integers({9}, 0, 33);
  const auto fused = [&](const Tensor& z) {
    return cross_entropy(z, labels, {.label_smoothing = 0.2, .ignore_index = ints(labels)[4]});
  };
  const auto composed = [&](const Tensor& z) {
    return cross_entropy(
        z, labels, {.label_smoothing = 0.2, .ignore_index = ints(labels)[4], .weight = ones({33}, DType::float64)});
  };
  EXPECT_NEAR(fused(logits).item(), composed(logits).item(), 1e-13);
  const auto a = doubles(grad(fused)(logits));
  const auto b = doubles(grad(composed)(logits));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], 1e-15);
  }
}

TEST(CrossEntropy, ProbabilitiesAsLabels) {
  Rng rng(73);
  const Tensor logits = rng.normal({4, 3}, 0, 1, DType::float64);
  const Tensor labels = i64({2, 0, 1, 1}, {4});
  const Tensor rows = one_hot(labels, 3, DType::float64);
  for (const double smoothing : {0.0, 0.3}) {
    EXPECT_NEAR(cross_entropy(logits, rows, {.label_smoothing = smoothing}).item(),
                cross_entropy(logits, labels, {.label_smoothing = smoothing}).item(), 1e-14);
  }
  const Tensor half = full({4, 3}, 1.0 / 3, DType::float64);
  EXPECT_NEAR(cross_entropy(zeros({4, 3}, DType::float64), half).item(), std::log(3), 1e-15);
}

TEST(CrossEntropy, MoreAxesStandBehindTheClasses) {
  Rng rng(74);
  const Tensor logits = rng.normal({2, 3, 4, 5}, 0, 1, DType::float64);
  const Tensor labels = rng.integers({2, 4, 5}, 0, 3);
  const Tensor flat = reshape(permute(logits, {0, 2, 3, 1}), {40, 3});
  const Tensor expected = cross_entropy(flat, reshape(labels, {40}), {.reduction = Reduction::none});
  const Tensor actual = cross_entropy(logits, labels, {.reduction = Reduction::none});
  EXPECT_EQ(actual.shape(), labels.shape());
  EXPECT_EQ(doubles(actual), doubles(expected));
  EXPECT_EQ(cross_entropy(f64({0, 0}, {2}), i64({1}, {})).item(), std::log(2.0));
  EXPECT_NEAR(cross_entropy(logits, softmax(logits, 1)).item(),
              -sum(softmax(logits, 1) * log_softmax(logits, 1)).item() / 40, 1e-13);
}

TEST(CrossEntropy, FarLogitsAndIgnoredRubbish) {
  EXPECT_EQ(cross_entropy(f64({1000, -1000}, {1, 2}), i64({0}, {1})).item(), 0);
  EXPECT_EQ(cross_entropy(f64({1000, -1000}, {1, 2}), i64({1}, {1})).item(), 2000);
  EXPECT_EQ(cross_entropy(f64({0, -kInf}, {1, 2}), i64({1}, {1})).item(), kInf);
  EXPECT_TRUE(std::isnan(cross_entropy(f64({0, kNan}, {1, 2}), i64({0}, {1})).item()));
  // What an ignored row holds doesn't matter, and its label needn't be a class.
  const Tensor logits = f64({kNan, kInf, 0, 0}, {2, 2});
  const Tensor labels = i64({-100, 1}, {2});
  for (const Tensor& weight : {Tensor(), ones({2}, DType::float64)}) {
    const CrossEntropyOptions options{.ignore_index = -100, .weight = weight};
    if (!weight.defined()) {
      EXPECT_THAT(doubles(grad([&](const Tensor& z) { return cross_entropy(z, labels, options); })(logits)),
                  ElementsAre(0, 0, 0.5, -0.5));
    }
    EXPECT_NEAR(cross_entropy(logits, labels, options).item(), std::log(2.0), 1e-15);
  }
  EXPECT_TRUE(std::isnan(cross_entropy(logits, i64({-100, -100}, {2}), {.ignore_index = -100}).item()));  // 0 / 0
  EXPECT_TRUE(std::isnan(cross_entropy(zeros({0, 4}), i64({}, {0})).item()));
}

/// Two rows of ones, the first with a NaN at `at`: its loss and gradient are NaN, those of the second the formula's.
void expect_nan_in_its_row(std::int64_t classes, std::int64_t at, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(2 * classes), 1.0);
  values[static_cast<std::size_t>(at)] = kNan;
  const Tensor logits = cast(Tensor::from(values, {2, classes}), dtype);
  const Tensor labels = i64({classes - 1, 0}, {2});
  const auto loss = [&](const Tensor& z) { return cross_entropy(z, labels, {.reduction = Reduction::none}); };
  const std::vector<double> losses = doubles(loss(logits));
  EXPECT_TRUE(std::isnan(losses[0])) << classes << " " << at;
  EXPECT_NEAR(losses[1], std::log(static_cast<double>(classes)), 1e-6) << classes << " " << at;
  const std::vector<double> gradient = doubles(grad([&](const Tensor& z) { return sum(loss(z)); })(logits));
  for (std::int64_t i = 0; i < classes; ++i) {
    EXPECT_TRUE(std::isnan(gradient[static_cast<std::size_t>(i)])) << classes << " " << at << " " << i;
    EXPECT_NEAR(gradient[static_cast<std::size_t>(classes + i)], 1.0 / static_cast<double>(classes) - (i == 0), 1e-6);
  }
}

TEST(CrossEntropy, OneNaNMakesItsRowNaNWhereverItStands) {
  for_each_isa([](Isa) {
    for (const std::int64_t classes : {5, 31, 32, 33, 64, 70}) {
      for (std::int64_t at = 0; at < classes; ++at) {
        expect_nan_in_its_row(classes, at, DType::float32);
        expect_nan_in_its_row(classes, at, DType::float64);
      }
    }
  });
}

// docs/numerics.md: exponentials below the smallest normal number, e to the power of -87.3 or -708.4, are 0.
TEST(CrossEntropy, SubnormalExponentialsAreZero) {
  const auto gradient = [](const std::vector<double>& logits, DType dtype) {
    const Tensor z = cast(Tensor::from(logits, {1, static_cast<std::int64_t>(logits.size())}), dtype);
    return doubles(grad([](const Tensor& x) { return cross_entropy(x, i64({0}, {1})); })(z));
  };
  const std::vector<double> of_float = gradient({0, -87, -88, -90, -104}, DType::float32);
  EXPECT_NEAR(of_float[1], std::exp(-87), 1e-6 * std::exp(-87));
  EXPECT_THAT(std::vector(of_float.begin() + 2, of_float.end()), ElementsAre(0, 0, 0));
  const std::vector<double> of_double = gradient({0, -708, -709, -740, -750}, DType::float64);
  EXPECT_NEAR(of_double[1], std::exp(-708), 1e-12 * std::exp(-708));
  EXPECT_THAT(std::vector(of_double.begin() + 2, of_double.end()), ElementsAre(0, 0, 0));
}

TEST(CrossEntropy, WrongInputsAreRefused) {
  const Tensor logits = zeros({2, 3});
  const Tensor labels = i64({0, 1}, {2});
  EXPECT_THAT(message_of<Error>([&] {
                cross_entropy(logits, i64({0, 3}, {2}));
              }),
              AllOf(HasSubstr("cross_entropy: index 3 at position 1"), HasSubstr("[0, 3)")));
  EXPECT_THAT(message_of<Error>([&] { cross_entropy(logits, i64({0, -100}, {2})); }), HasSubstr("index -100"));
  EXPECT_THAT(message_of<ShapeError>([&] { cross_entropy(logits, i64({0}, {1})); }), HasSubstr("don't fit"));
  EXPECT_THAT(message_of<ShapeError>([&] { cross_entropy(logits, zeros({2})); }), HasSubstr("don't fit"));
  EXPECT_THAT(message_of<ShapeError>([&] { cross_entropy(full({}, 1), full({}, 1)); }), HasSubstr("don't fit"));
  EXPECT_THAT(message_of<ShapeError>([&] { cross_entropy(logits, labels, {.label_smoothing = 1.5}); }),
              HasSubstr("outside [0, 1]"));
  EXPECT_THAT(message_of<ShapeError>([&] { cross_entropy(logits, labels, {.label_smoothing = kNan}); }),
              HasSubstr("outside [0, 1]"));
  EXPECT_THAT(message_of<ShapeError>([&] { cross_entropy(logits, labels, {.weight = zeros({2})}); }),
              HasSubstr("one weight a class"));
  EXPECT_THAT(message_of<ShapeError>([&] { cross_entropy(logits, softmax(logits), {.ignore_index = 1}); }),
              HasSubstr("no label to ignore"));
  EXPECT_THAT(message_of<DTypeError>([&] { cross_entropy(cast(logits, DType::int64), labels); }),
              HasSubstr("floating"));
}

TEST(NllLoss, OfLogSoftmaxIsCrossEntropy) {
  Rng rng(75);
  const Tensor logits = rng.normal({6, 4}, 0, 1, DType::float64);
  const Tensor labels = rng.integers({6}, 0, 4);
  const Tensor weight = f64({1, 2, 3, 4}, {4});
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
    const auto nll = doubles(nll_loss(log_softmax(logits), labels, {reduction, 2, weight}));
    const auto whole = doubles(cross_entropy(logits, labels, {reduction, 0, 2, weight}));
    EXPECT_EQ(nll, whole);
  }
  EXPECT_EQ(nll_loss(f64({-1, -2, -3, -4}, {2, 2}), i64({0, 1}, {2})).item(), 2.5);
  EXPECT_THAT(message_of<ShapeError>([&] { nll_loss(logits, i64({0}, {1})); }), HasSubstr("nll_loss"));
  EXPECT_THAT(message_of<Error>([&] { nll_loss(zeros({1, 4}), i64({4}, {1})); }), HasSubstr("index 4"));
}

TEST(ElementwiseLosses, FollowTheirDefinitions) {
  const Tensor x = f64({0, 1, -3, 0.5}, {4});
  const Tensor t = f64({0, 0.5, 1, 2.5}, {4});  // distances 0, 0.5, 4, 2
  EXPECT_THAT(doubles(mse_loss(x, t, Reduction::none)), ElementsAre(0, 0.25, 16, 4));
  EXPECT_EQ(mse_loss(x, t).item(), 20.25 / 4);
  EXPECT_THAT(doubles(l1_loss(x, t, Reduction::none)), ElementsAre(0, 0.5, 4, 2));
  EXPECT_EQ(l1_loss(x, t, Reduction::sum).item(), 6.5);
  EXPECT_THAT(doubles(huber_loss(x, t, 2, Reduction::none)), ElementsAre(0, 0.125, 6, 2));
  EXPECT_THAT(doubles(smooth_l1_loss(x, t, 2, Reduction::none)), ElementsAre(0, 0.0625, 3, 1));
  EXPECT_THAT(doubles(smooth_l1_loss(x, t, 0, Reduction::none)), ElementsAre(0, 0.5, 4, 2));
  EXPECT_THAT(doubles(grad([&](const Tensor& a) { return huber_loss(a, t, 1, Reduction::sum); })(x)),
              ElementsAre(0, 0.5, -1, -1));
  EXPECT_TRUE(std::isnan(huber_loss(f64({kNan}, {1}), f64({0}, {1})).item()));
  EXPECT_EQ(huber_loss(f64({kInf}, {1}), f64({0}, {1})).item(), kInf);
  EXPECT_EQ(mse_loss(Tensor::from({1, 3}, {2}), Tensor::from({0, 0}, {2})).item(), 5);  // integers as f32
  EXPECT_TRUE(std::isnan(mse_loss(zeros({0}), zeros({0})).item()));
  EXPECT_THAT(message_of<ShapeError>([] { huber_loss(zeros({2}), zeros({2}), 0); }), HasSubstr("delta is 0"));
  for (const auto& mismatch : {std::function<void()>([] {
                                 mse_loss(zeros({2, 1}), zeros({2}));
                               }),
                               std::function<void()>([] {
                                 l1_loss(zeros({2, 1}), zeros({2}));
                               }),
                               std::function<void()>([] {
                                 huber_loss(zeros({2, 1}), zeros({2}));
                               }),
                               std::function<void()>([] {
                                 bce_with_logits(zeros({2, 1}), zeros({2}));
                               })}) {
    EXPECT_THAT(message_of<ShapeError>(mismatch), HasSubstr("shapes differ"));
  }
}

TEST(BceWithLogits, IsStableAndFollowsItsDefinition) {
  const std::vector<double> logits{-700, -40, -3, -1e-9, 0, 0.5, 3, 40, 700};
  for (const double target : {0.0, 0.3, 1.0}) {
    for (const double x : logits) {
      // In long double, with the two logarithms written out for each sign.
      const long double e = std::exp(static_cast<long double>(-std::fabs(x)));
      const long double log_one = x >= 0 ? -std::log1p(e) : x - std::log1p(e);
      const long double log_zero = x >= 0 ? -x - std::log1p(e) : -std::log1p(e);
      const auto expected = static_cast<double>(-(target * log_one + (1 - target) * log_zero));
      const double actual = bce_with_logits(f64({x}, {1}), f64({target}, {1})).item();
      EXPECT_NEAR(actual, expected, 4e-16 * std::fabs(expected)) << x << " to " << target;
    }
  }
  EXPECT_EQ(bce_with_logits(f64({kInf}, {1}), f64({0}, {1})).item(), kInf);
  EXPECT_TRUE(std::isnan(bce_with_logits(f64({kNan}, {1}), f64({0}, {1})).item()));
}

TEST(BceWithLogits, WeightsScaleElementsAndPositives) {
  const Tensor x = f64({0, 0}, {2});
  const Tensor t = f64({1, 0}, {2});
  const double ln2 = std::log(2.0);
  const auto losses = doubles(bce_with_logits(
      x, t, {.reduction = Reduction::none, .weight = f64({1, 10}, {2}), .pos_weight = full({}, 3, DType::float64)}));
  EXPECT_NEAR(losses[0], 3 * ln2, 1e-15);
  EXPECT_NEAR(losses[1], 10 * ln2, 1e-14);
}

TEST(Losses, AreTheSameInGraphs) {
  Rng rng(76);
  const Tensor logits = rng.normal({8, 10});
  const Tensor labels = rng.integers({8}, 0, 10);
  const auto loss = [](const Tensor& z, const Tensor& y) {
    return cross_entropy(z, y, {.label_smoothing = 0.1, .ignore_index = 3}) + huber_loss(z, zeros({8, 10})) +
           bce_with_logits(z, ones({8, 10}));
  };
  auto eager = value_and_grad(loss);
  auto graph = jit([&](const Tensor& z, const Tensor& y) { return value_and_grad(loss)(z, y).arguments[0]; });
  const Tensor expected = eager(logits, labels).arguments[0];
  EXPECT_TRUE(bitwise_equal(graph(logits, labels), expected));
  EXPECT_TRUE(bitwise_equal(graph(logits, labels), expected));
}

}  // namespace
}  // namespace diptych::testing
