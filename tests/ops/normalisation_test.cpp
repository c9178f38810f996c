// Normalisations against formulas in double, and the running statistics in eager and as a graph.

#include <cmath>
#include <functional>
#include <map>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/ops/row_ops.h"
#include "tests/support/called.h"
#include "tests/support/message_of.h"

namespace diptych {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

/// (x - mean) / sqrt(variance + eps) for each group of elements that `group_of(index)` puts together.
template <class GroupOf>
std::vector<double> normalised(const std::vector<double>& x, const GroupOf& group_of, double eps, bool centred = true) {
  std::map<std::int64_t, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < x.size(); ++i) {
    groups[group_of(static_cast<std::int64_t>(i))].push_back(i);
  }
  std::vector<double> result(x.size());
  for (const auto& [group, members] : groups) {
    double mean = 0;
    for (const std::size_t i : members) {
      mean += centred ? x[i] / static_cast<double>(members.size()) : 0;
    }
    double variance = 0;
    for (const std::size_t i : members) {
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(members.size());
    }
    for (const std::size_t i : members) {
      result[i] = (x[i] - mean) / std::sqrt(variance + eps);
    }
  }
  return result;
}

void expect_near(const Tensor& actual, const std::vector<double>& expected, double tolerance, const std::string& what) {
  const std::vector<double> values = actual.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance) << what << ", element " << i;
  }
}

TEST(LayerNorm, FollowsTheFormula) {
  for (const auto& [shape, axes] : {std::pair{Shape{3, 7}, 1},
                                    {Shape{2, 3, 5}, 2},
                                    {Shape{4, 1}, 1},
                                    {Shape{9}, 1},
                                    {Shape{2, 70, 33}, 1},
                                    {Shape{1, 9000}, 1}}) {
    const Tensor x = Rng(1).normal(shape, 0.5, 2, DType::float64);
    Shape last;
    for (int axis = shape.rank() - axes; axis < shape.rank(); ++axis) {
      last.push_back(shape[axis]);
    }
    const std::int64_t n = last.product();
    const Tensor weight = Rng(2).normal(last, 0, 1, DType::float64);
    const Tensor bias = Rng(3).normal(last, 0, 1, DType::float64);
    const std::vector<double> h = normalised(
        x.to_vector<double>(), [&](std::int64_t i) { return i / n; }, 1e-5);
    const std::vector<double> w = weight.to_vector<double>();
    const std::vector<double> b = bias.to_vector<double>();
    for (const bool weighted : {false, true}) {
      for (const bool biased : {false, true}) {
        std::vector<double> expected = h;
        for (std::size_t i = 0; i < h.size(); ++i) {
          const std::size_t at = i % static_cast<std::size_t>(n);
          expected[i] = h[i] * (weighted ? w[at] : 1) + (biased ? b[at] : 0);
        }
        const Tensor y = layer_norm(x, last, weighted ? weight : Tensor(), biased ? bias : Tensor());
        expect_near(y, expected, 1e-12, to_string(shape));
        expect_near(layer_norm(cast(x, DType::float32), last, weighted ? cast(weight, DType::float32) : Tensor(),
                               biased ? cast(bias, DType::float32) : Tensor()),
                    expected, 1e-5, to_string(shape));
      }
    }
    expect_near(
        rms_norm(x, last, weight),
        [&] {
          std::vector<double> expected = normalised(
              x.to_vector<double>(), [&](std::int64_t i) { return i / n; }, 1e-6, false);
          for (std::size_t i = 0; i < expected.size(); ++i) {
            expected[i] *= w[i % static_cast<std::size_t>(n)];
          }
          return expected;
        }(),
        1e-12, to_string(shape));
  }
}

TEST(LayerNorm, HandComputed) {
  const Tensor x = Tensor::from({1.0, 3.0, 5.0, 5.0}, {2, 2});
  EXPECT_THAT(layer_norm(x, {2}, {}, {}, 0).to_vector<double>(), ElementsAre(-1, 1, ::testing::_, ::testing::_));
  EXPECT_THAT(layer_norm(x, {2}, {}, {}, 3).to_vector<double>(), ElementsAre(-0.5, 0.5, 0, 0));
  EXPECT_THAT(rms_norm(Tensor::from({3.0, 4.0}, {1, 2}), {2}, Tensor::from({1.0, 2.0}, {2}), 0).to_vector<double>(),
              ElementsAre(3 / std::sqrt(12.5), 8 / std::sqrt(12.5)));
}

TEST(LayerNorm, LargeMeanAndSmallVarianceAreSound) {
  // 10,000 plus a few hundredths: in f32 a step is 1/1024.
  std::vector<float> values;
  for (int i = 0; i < 256; ++i) {
    values.push_back(10000.0F + static_cast<float>(i * 37 % 101) / 1024.0F);
  }
  const Tensor x = Tensor::from(values, {1, 256});
  const std::vector<double> expected = normalised(
      x.to_vector<double>(), [](std::int64_t) { return 0; }, 1e-8);
  expect_near(layer_norm(x, {256}, {}, {}, 1e-8), expected, 1e-5, "layer_norm");
  Variable mean(zeros({1}));
  Variable variance(ones({1}));
  expect_near(batch_norm(reshape(x, {256, 1}), {}, {}, mean, variance, {.eps = 1e-8}), expected, 1e-5, "batch_norm");
  expect_near(group_norm(reshape(x, {1, 256}), 1, {}, {}, 1e-8), expected, 1e-5, "group_norm");
}

TEST(LayerNorm, NanStaysInItsRow) {
  const Tensor x = Tensor::from({1.0F, NAN, 3.0F, 1.0F, 2.0F, 3.0F, 1.0F, INFINITY, 2.0F}, {3, 3});
  const std::vector<float> y = layer_norm(x, {3}).to_vector<float>();
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(std::isnan(y[i]), i / 3 != 1) << i;
  }
}

TEST(LayerNorm, GradientOfAConstantDirectionIsZero) {
  // h doesn't change if x is shifted or (with eps 0) scaled: dx is orthogonal to 1 and to x.
  const Tensor x = Rng(4).normal({5, 37}, 3, 2, DType::float64);
  const Tensor dy = Rng(5).normal({5, 37}, 0, 1, DType::float64);
  const Tensor dx = grad([&](const Tensor& t) { return sum(mul(layer_norm(t, {37}, {}, {}, 0), dy)); })(x);
  expect_near(sum(dx, {1}), std::vector<double>(5, 0.0), 1e-13, "shift");
  expect_near(sum(dx * x, {1}), std::vector<double>(5, 0.0), 1e-12, "scale");
}

/// A norm and its gradients as ops, with the statistics of the rows given or found anew.
struct RowNorm {
  const OpDef& statistics;
  const OpDef& norm;
  const OpDef& input_gradient;
  const OpDef& weight_gradient;
  bool has_bias;
};
const RowNorm kRowNorms[] = {
    {op::layer_norm_statistics, op::layer_norm, op::layer_norm_input_gradient, op::layer_norm_weight_gradient, true},
    {op::rms_norm_statistics, op::rms_norm, op::rms_norm_input_gradient, op::rms_norm_weight_gradient, false}};
const ops::TrailingAttributes kLastAxis{1, 1e-5};

Tensor called(const OpDef& op, const std::vector<Tensor>& inputs, const void* attributes = &kLastAxis) {
  return testing::called(op, inputs, attributes);
}

TEST(RowNorms, GiveTheSameBitsWithGivenStatistics) {
  Rng rng(31);
  for (const RowNorm& each : kRowNorms) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      for (const std::int64_t n : {1, 3, 7, 16, 31, 64, 100, 256, 257, 777, 5000}) {
        const Tensor x = rng.normal({67, n}, 3, 2, dtype);
        const Tensor dy = rng.normal({67, n}, 0, 1, dtype);
        const Tensor w = rng.normal({n}, 0, 1, dtype);
        std::vector<Tensor> inputs{x, w};
        if (each.has_bias) {
          inputs.push_back(rng.normal({n}, 0, 1, dtype));
        }
        const Tensor statistics = called(each.statistics, {x});
        const Tensor y = called(each.norm, inputs);
        inputs.push_back(statistics);
        EXPECT_TRUE(bitwise_equal(called(each.norm, inputs), y)) << each.norm.name << " of " << n;
        EXPECT_TRUE(
            bitwise_equal(called(each.input_gradient, {dy, x, w, statistics}), called(each.input_gradient, {dy, x, w})))
            << each.norm.name << " of " << n;
        EXPECT_TRUE(
            bitwise_equal(called(each.weight_gradient, {dy, x, statistics}), called(each.weight_gradient, {dy, x})))
            << each.norm.name << " of " << n;
      }
    }
  }
}

TEST(RowNorms, StatisticsFollowTheFormula) {
  const Tensor x = Rng(32).normal({9, 50}, 1e3, 2, DType::float64);
  for (const RowNorm& each : kRowNorms) {
    const Tensor found = called(each.statistics, {x});
    ASSERT_EQ(found.shape(), (Shape{9, 3}));
    const Tensor middle = each.has_bias ? mean(x, {1}) : zeros({9}, DType::float64);
    const Tensor rstd = 1.0 / sqrt(mean(square(x - unsqueeze(middle, 1)), {1}) + 1e-5);
    const auto column = [&](std::int64_t i) { return reshape(slice(found, 1, i, i + 1), {9}); };
    EXPECT_LT(max(abs(column(0) + column(1) - middle)).item(), 1e-11);
    EXPECT_LT(max(abs(column(1))).item(), 1e-11) << "the rounding error of the mean";
    EXPECT_LT(max(abs(column(2) / rstd - 1.0)).item(), 1e-12);
  }
}

TEST(RowNorms, FindStatisticsOnceForATape) {
  Rng rng(33);
  const Tensor x = rng.normal({5, 40}, 0, 1, DType::float64);
  const Tensor w = rng.normal({40}, 0, 1, DType::float64);
  const Tensor b = rng.normal({40}, 0, 1, DType::float64);
  const Tensor dy = rng.normal({5, 40}, 0, 1, DType::float64);
  const auto loss = [&](const Tensor& in, const Tensor& weight, const Tensor& bias) {
    return sum(layer_norm(in, {40}, weight, bias) * dy);
  };
  const Tensor dx = called(op::layer_norm_input_gradient, {dy, x, w});
  const Tensor dw = called(op::layer_norm_weight_gradient, {dy, x});
  const std::vector<Tensor> all = grad(loss, {0, 1, 2})(x, w, b);
  EXPECT_TRUE(bitwise_equal(all[0], dx));
  EXPECT_TRUE(bitwise_equal(all[1], dw));
  EXPECT_TRUE(bitwise_equal(all[2], sum(dy, {0})));
  EXPECT_TRUE(bitwise_equal(grad(loss, {0})(x, w, b), dx));
  EXPECT_TRUE(bitwise_equal(grad(loss, {1})(x, w, b), dw));
  const auto rms = [&](const Tensor& in, const Tensor& weight) { return sum(rms_norm(in, {40}, weight, 1e-5) * dy); };
  const std::vector<Tensor> of_rms = grad(rms, {0, 1})(x, w);
  EXPECT_TRUE(bitwise_equal(of_rms[0], called(op::rms_norm_input_gradient, {dy, x, w})));
  EXPECT_TRUE(bitwise_equal(of_rms[1], called(op::rms_norm_weight_gradient, {dy, x})));
}

TEST(Normalisation, SecondDerivativesCountTheStatistics) {
  Rng rng(34);
  const Tensor x = rng.normal({3, 6}, 0, 1, DType::float64);
  const Tensor w = rng.normal({6}, 0, 1, DType::float64);
  const Tensor b = rng.normal({6}, 0, 1, DType::float64);
  const Tensor c = rng.normal({3, 6}, 0, 1, DType::float64);
  const Tensor u = rng.normal({3, 6}, 0, 1, DType::float64);
  const Tensor v = rng.normal({6}, 0, 1, DType::float64);
  using Norm = std::function<Tensor(const Tensor& x, const Tensor& weight)>;
  const std::vector<std::pair<const char*, Norm>> norms{
      {"layer_norm", [&](const Tensor& t, const Tensor& weight) { return layer_norm(t, {6}, weight, b); }},
      {"rms_norm", [&](const Tensor& t, const Tensor& weight) { return rms_norm(t, {6}, weight); }},
      {"batch_norm", [&](const Tensor& t, const Tensor& weight) { return batch_norm(t, weight, b, {}, {}); }}};
  for (const auto& [name, norm] : norms) {
    // <u, df/dx> + <v, df/dw>
    const auto slope = [&, &norm = norm](const Tensor& in) {
      const auto f = [&](const Tensor& each, const Tensor& weight) { return sum(norm(each, weight) * c); };
      const std::vector<Tensor> gradients = grad(f, {0, 1})(in, w);
      return sum(gradients[0] * u) + sum(gradients[1] * v);
    };
    const Tensor exact = grad(slope, {0})(x);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      std::vector<double> step(static_cast<std::size_t>(x.numel()), 0);
      step[static_cast<std::size_t>(i)] = 1e-6;
      const Tensor h = Tensor::from(step, {3, 6});
      const double difference = (slope(x + h).item() - slope(x - h).item()) / 2e-6;
      EXPECT_NEAR(reshape(exact, {18}).to_vector<double>()[static_cast<std::size_t>(i)], difference, 1e-7)
          << name << ' ' << i;
    }
  }
}

TEST(RowNorms, RefuseOtherStatistics) {
  const Tensor x = ones({4, 5});
  const Tensor w = ones({5});
  EXPECT_THAT(message_of<ShapeError>([&] {
                called(op::layer_norm, {x, w, w, ones({5, 3})});
              }),
              HasSubstr("input 3 isn't statistics of f32[4,5]"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                called(op::rms_norm_weight_gradient, {x, x, ones({4})});
              }),
              HasSubstr("input 2 isn't statistics"));
  EXPECT_THAT(message_of<DTypeError>([&] { called(op::layer_norm_statistics, {cast(x, DType::bfloat16)}); }),
              HasSubstr("bf16"));
}

TEST(GroupNorm, FollowsTheFormula) {
  for (const std::int64_t groups : {1, 2, 3, 6}) {
    const Tensor x = Rng(1).normal({2, 6, 3, 5}, 1, 2, DType::float64);
    const Tensor weight = Rng(2).normal({6}, 0, 1, DType::float64);
    const Tensor bias = Rng(3).normal({6}, 0, 1, DType::float64);
    const std::int64_t size = 6 / groups * 15;
    std::vector<double> expected = normalised(
        x.to_vector<double>(), [&](std::int64_t i) { return i / size; }, 1e-5);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t channel = i / 15 % 6;
      expected[i] = expected[i] * weight.to_vector<double>()[channel] + bias.to_vector<double>()[channel];
    }
    expect_near(group_norm(x, groups, weight, bias), expected, 1e-12, fmt::format("{} groups", groups));
  }
}

TEST(BatchNorm, FollowsTheFormulaAndMovesTheRunningStatistics) {
  for (const Shape& shape : {Shape{6, 3}, Shape{4, 3, 5}, Shape{2, 3, 4, 5}, Shape{1, 3, 40}}) {
    const Tensor x = Rng(1).normal(shape, 2, 3, DType::float64);
    const Tensor weight = Rng(2).normal({3}, 0, 1, DType::float64);
    const Tensor bias = Rng(3).normal({3}, 0, 1, DType::float64);
    Variable mean(full({3}, 0.5, DType::float64));
    Variable variance(full({3}, 2, DType::float64));
    const std::int64_t plane = shape.product() / shape[0] / 3;
    const auto channel_of = [&](std::int64_t i) { return i / plane % 3; };
    const std::vector<double> values = x.to_vector<double>();
    std::vector<double> expected = normalised(values, channel_of, 1e-5);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto channel = static_cast<std::size_t>(channel_of(static_cast<std::int64_t>(i)));
      expected[i] = expected[i] * weight.to_vector<double>()[channel] + bias.to_vector<double>()[channel];
    }
    expect_near(batch_norm(x, weight, bias, mean, variance, {.momentum = 0.25}), expected, 1e-12, to_string(shape));

    const double count = static_cast<double>(values.size()) / 3;
    std::vector<double> means(3);
    std::vector<double> squares(3);
    for (std::size_t i = 0; i < values.size(); ++i) {
      means[static_cast<std::size_t>(channel_of(static_cast<std::int64_t>(i)))] += values[i] / count;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto channel = static_cast<std::size_t>(channel_of(static_cast<std::int64_t>(i)));
      squares[channel] += (values[i] - means[channel]) * (values[i] - means[channel]);
    }
    std::vector<double> moved_mean;
    std::vector<double> moved_variance;
    for (std::size_t c = 0; c < 3; ++c) {
      moved_mean.push_back(0.75 * 0.5 + 0.25 * means[c]);
      moved_variance.push_back(0.75 * 2 + 0.25 * squares[c] / (count - 1));  // unbiased
    }
    expect_near(mean.value(), moved_mean, 1e-13, "running mean");
    expect_near(variance.value(), moved_variance, 1e-12, "running variance");

    // From then on, outside training, the running ones are used, and stay.
    std::vector<double> by_running;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto c = static_cast<std::size_t>(channel_of(static_cast<std::int64_t>(i)));
      by_running.push_back((values[i] - moved_mean[c]) / std::sqrt(moved_variance[c] + 1e-5) *
                               weight.to_vector<double>()[c] +
                           bias.to_vector<double>()[c]);
    }
    expect_near(batch_norm(x, weight, bias, mean, variance, {.training = false}), by_running, 1e-12, "evaluation");
    expect_near(mean.value(), moved_mean, 1e-13, "running mean after evaluation");
  }
}

const ops::ChannelAttributes kChannels{1e-5};

TEST(BatchNorm, GivesTheSameBitsWithGivenStatistics) {
  Rng rng(35);
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const Shape& shape :
         {Shape{67, 3}, Shape{5, 4, 1}, Shape{3, 2, 31}, Shape{1, 3, 7, 9}, Shape{4, 70, 20, 30}}) {
      const Tensor x = rng.normal(shape, 3, 2, dtype);
      const Tensor dy = rng.normal(shape, 0, 1, dtype);
      const Tensor w = rng.normal({shape[1]}, 0, 1, dtype);
      const Tensor b = rng.normal({shape[1]}, 0, 1, dtype);
      const Tensor statistics = called(op::batch_norm_statistics, {x}, &kChannels);
      const auto expect_same = [&](const OpDef& op, std::vector<Tensor> inputs) {
        const Tensor found = called(op, inputs, &kChannels);
        inputs.push_back(statistics);
        EXPECT_TRUE(bitwise_equal(called(op, inputs, &kChannels), found)) << op.name << " of " << to_string(shape);
      };
      expect_same(op::batch_norm, {x, w, b});
      expect_same(op::batch_norm_input_gradient, {dy, x, w});
      expect_same(op::batch_norm_weight_gradient, {dy, x});
    }
  }
}

TEST(BatchNorm, FindsStatisticsOnceForARunningMeanAndATape) {
  Variable mean(zeros({3}));
  Variable variance(ones({3}));
  const auto loss = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
    return sum(square(batch_norm(x, w, b, mean, variance)));
  };
  const Tensor x = Rng(36).normal({2, 3, 5, 5}, 1, 2);
  auto function = jit([&](const Tensor& in) { return grad(loss, {0, 1, 2})(in, ones({3}), zeros({3})); });
  function(x);
  std::map<const OpDef*, std::vector<std::size_t>> inputs;  // of each node
  for (const graph::Node& node : function.compiled()->graph()->nodes) {
    inputs[node.op].push_back(node.inputs.size());
  }
  EXPECT_THAT(inputs[&op::batch_norm_statistics], ElementsAre(1));
  EXPECT_THAT(inputs[&op::batch_norm], ElementsAre(4)) << "with statistics";
  EXPECT_THAT(inputs[&op::batch_norm_input_gradient], ElementsAre(4));
  EXPECT_THAT(inputs[&op::batch_norm_weight_gradient], ElementsAre(3));
}

TEST(Normalisation, ForwardModeGoesThroughBranches) {
  Rng rng(37);
  const Tensor w = rng.normal({3}, 0, 1, DType::float64);
  const Tensor b = rng.normal({3}, 0, 1, DType::float64);
  const Tensor x = rng.normal({4, 3}, 1, 2, DType::float64);
  const Tensor u = rng.normal({4, 3}, 0, 1, DType::float64);
  Variable mean(zeros({3}, DType::float64));
  Variable variance(ones({3}, DType::float64));
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> norms{
      {"layer_norm", [&](const Tensor& t) { return layer_norm(t, {3}, w, b); }},
      {"batch_norm", [&](const Tensor& t) { return batch_norm(t, w, b, mean, variance); }}};
  for (const auto& [name, norm] : norms) {
    const auto branch = [&norm = norm](const Tensor& t) {
      return cond(
          greater(sum(t), full({}, -1e9, DType::float64)), norm, [](const Tensor& same) { return same; }, t);
    };
    EXPECT_TRUE(bitwise_equal(jvp(branch, x, u).second, jvp(norm, x, u).second)) << name;
    const auto slope = [&norm = norm](const auto& f) {
      return grad([f](const Tensor& t) { return sum(square(f(t))); }, {0});
    };
    EXPECT_TRUE(bitwise_equal(jvp(slope(branch), x, u).second, jvp(slope(norm), x, u).second)) << name;
  }
}

TEST(BatchNorm, MixedTypesMoveTheRunningStatistics) {
  Variable mean(zeros({2}));
  Variable variance(ones({2}));
  const Tensor x = Rng(38).normal({40, 2}, 5, 2);
  const Tensor y = batch_norm(x, ones({2}, DType::float64), zeros({2}, DType::float64), mean, variance);
  EXPECT_EQ(y.dtype(), DType::float64);
  EXPECT_NEAR(mean.value().to_vector<float>()[0], 0.1 * diptych::mean(x, {0}).to_vector<float>()[0], 1e-6);
  EXPECT_NEAR(variance.value().to_vector<float>()[1], 0.9 + 0.1 * var(x, {0}, 1).to_vector<float>()[1], 1e-5);
}

TEST(BatchNorm, RefusesOtherStatistics) {
  const Tensor x = ones({4, 5, 2});
  const Tensor w = ones({5});
  for (const Shape& wrong : {Shape{5, 3}, Shape{4, 4}, Shape{20}}) {
    EXPECT_THAT(message_of<ShapeError>([&] {
                  called(op::batch_norm, {x, w, w, ones(wrong)}, &kChannels);
                }),
                HasSubstr("input 3 isn't statistics of f32[4,5,2]"));
  }
}

TEST(BatchNorm, TrainsTheSameInEagerAndAsAGraph) {
  struct State {
    Variable weight{ones({4}), "weight"};
    Variable bias{zeros({4}), "bias"};
    Variable mean{zeros({4}), "mean"};
    Variable variance{ones({4}), "variance"};
  };
  const auto step_on = [](State& s) {
    return [&s](const Tensor& x) {
      auto loss = value_and_grad(
          [&](const Tensor& t) { return sum(square(batch_norm(t, s.weight, s.bias, s.mean, s.variance) - 0.5)); },
          {.weights = {s.weight, s.bias}});
      auto result = loss(x);
      s.weight.assign(s.weight.value() - result.weights[0] * 0.01);
      s.bias.assign(s.bias.value() - result.weights[1] * 0.01);
      return result.value;
    };
  };
  State eager_state;
  State graph_state;
  auto eager = step_on(eager_state);
  auto graph = jit(step_on(graph_state));
  auto evaluate = [](State& s, const Tensor& x) {
    return batch_norm(x, s.weight, s.bias, s.mean, s.variance, {.training = false});
  };
  auto evaluate_graph = jit([&](const Tensor& x) { return evaluate(graph_state, x); });
  Rng rng(8);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = rng.normal({3, 4, 5, 5}, 1, 2);
    EXPECT_TRUE(bitwise_equal(eager(x), graph(x))) << i;
    EXPECT_TRUE(bitwise_equal(eager_state.mean.value(), graph_state.mean.value())) << i;
    EXPECT_TRUE(bitwise_equal(eager_state.variance.value(), graph_state.variance.value())) << i;
    EXPECT_TRUE(bitwise_equal(eager_state.weight.value(), graph_state.weight.value())) << i;
    EXPECT_TRUE(bitwise_equal(evaluate(eager_state, x), evaluate_graph(x))) << i;
  }
  EXPECT_GT(eager_state.mean.value().to_vector<float>()[0], 0.2F);  // they did move
}

TEST(BatchNorm, WithoutRunningStatisticsTheBatchIsAllThereIs) {
  const Tensor x = Rng(1).normal({4, 2, 3});
  const Tensor trained = batch_norm(x, {}, {}, {}, {});
  EXPECT_TRUE(bitwise_equal(trained, batch_norm(x, {}, {}, {}, {}, {.training = false})));
}

TEST(BatchNorm, KeepsTheTypeOfItsStatistics) {
  Variable mean(zeros({2}));
  Variable variance(ones({2}));
  const Tensor x = cast(Rng(1).normal({4, 2, 3}, 5), DType::bfloat16);
  EXPECT_EQ(batch_norm(x, {}, {}, mean, variance).dtype(), DType::bfloat16);
  EXPECT_EQ(batch_norm(x, {}, {}, mean, variance, {.training = false}).dtype(), DType::bfloat16);
  EXPECT_EQ(mean.type().dtype, DType::float32);
  EXPECT_NEAR(mean.value().to_vector<float>()[0], 5 * 0.1, 0.2);
}

TEST(BatchNorm, EmptyBatchLeavesTheStatistics) {
  Variable mean(zeros({2}));
  Variable variance(ones({2}));
  EXPECT_EQ(batch_norm(zeros({0, 2, 3}), {}, {}, mean, variance).shape(), (Shape{0, 2, 3}));
  EXPECT_THAT(mean.value().to_vector<float>(), Each(0));
  EXPECT_THAT(variance.value().to_vector<float>(), Each(1));
}

TEST(Normalisation, RefusesWhatMakesNoSense) {
  const Tensor x = zeros({2, 4, 3});
  Variable two(zeros({2}));
  Variable four(zeros({4}));
  EXPECT_THAT(message_of([&] { layer_norm(x, {4}); }), HasSubstr("f32[2,4,3] doesn't end in [4]"));
  EXPECT_THAT(message_of([&] { layer_norm(x, {}); }), HasSubstr("doesn't end in []"));
  EXPECT_THAT(message_of([&] { layer_norm(x, {2, 2, 4, 3}); }), HasSubstr("doesn't end in"));
  EXPECT_THAT(message_of([&] { layer_norm(x, {3}, zeros({4})); }), HasSubstr("input 1 has not shape [3]"));
  EXPECT_THAT(message_of([&] { layer_norm(x, {3}, zeros({3}), zeros({1, 3})); }), HasSubstr("input 2"));
  EXPECT_THAT(message_of([&] { layer_norm(x, {3}, {}, {}, INFINITY); }), HasSubstr("eps"));
  EXPECT_THAT(message_of([&] { rms_norm(x, {3}, {}, NAN); }), HasSubstr("eps"));
  EXPECT_THAT(message_of([&] { layer_norm(zeros({2, 3}, DType::int64), {3}); }), HasSubstr("floating-point"));
  EXPECT_THAT(message_of([&] { group_norm(x, 3); }), HasSubstr("f32[2,4,3] in 3 groups"));
  EXPECT_THAT(message_of([&] { group_norm(x, 0); }), HasSubstr("0 groups"));
  EXPECT_THAT(message_of([&] { group_norm(x, 2, zeros({2})); }), HasSubstr("weight f32[2]"));
  EXPECT_THAT(message_of([&] { batch_norm(zeros({4}), {}, {}, {}, {}); }), HasSubstr("no channels"));
  EXPECT_THAT(message_of([&] { batch_norm(x, zeros({3}), {}, {}, {}); }), HasSubstr("weight f32[3]"));
  EXPECT_THAT(message_of([&] { batch_norm(x, {}, {}, two, four); }), HasSubstr("running statistics f32[2]"));
  EXPECT_THAT(message_of([&] { batch_norm(x, {}, {}, four, {}, {.training = false}); }), HasSubstr("only one"));
  EXPECT_THAT(message_of([&] { batch_norm(zeros({1, 4}), {}, {}, four, four); }), HasSubstr("one element a channel"));
}

}  // namespace
}  // namespace diptych
