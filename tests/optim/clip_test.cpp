#include "framework/optim/clip.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/dispatch/op.h"
#include "tests/graph/variants.h"

namespace diptych::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Tensor> gradients() { return {Tensor::from({3.0, 0.0}, {2}), Tensor::from({0.0, -4.0, 0.0}, {3, 1})}; }

TEST(ClipGradNorm, ScalesToTheLargestNorm) {
  const ClippedGradients result = clip_grad_norm(gradients(), 1);
  EXPECT_DOUBLE_EQ(result.norm.item(), 5);
  const double scale = 1 / (5 + 1e-6);
  EXPECT_DOUBLE_EQ(result.gradients[0].to_vector<double>()[0], 3 * scale);
  EXPECT_DOUBLE_EQ(result.gradients[1].to_vector<double>()[1], -4 * scale);
  EXPECT_EQ(result.gradients[1].shape(), (Shape{3, 1}));
}

TEST(ClipGradNorm, LeavesSmallOnesToTheBit) {
  const ClippedGradients result = clip_grad_norm(gradients(), 5.1);
  EXPECT_TRUE(bitwise_equal(result.gradients[0], gradients()[0]));
  EXPECT_TRUE(bitwise_equal(result.gradients[1], gradients()[1]));
}

/// A graph, a profile and an error name the caller's line for each of its ops.
TEST(ClipGradNorm, ItsOpsAreTheCallersLine) {
  int line = 0;
  graph::Graph captured;
  passes::PipelineOptions options = passes::PipelineOptions::none();
  options.observe = [&](const std::string&, const graph::Graph& graph, bool) { captured = graph; };
  auto function = jit(
      [&](const Tensor& x) {
        line = __LINE__ + 1;
        return clip_grad_norm(std::vector<Tensor>{x}, 1).gradients;
      },
      {.pipeline = options});
  function(gradients()[0]);
  ASSERT_FALSE(captured.nodes.empty());
  for (const graph::Node& node : captured.nodes) {
    EXPECT_EQ(node.provenance.where.line, static_cast<std::uint32_t>(line)) << node.op->name;
  }
}

TEST(ClipGradNorm, OtherNorms) {
  EXPECT_DOUBLE_EQ(clip_grad_norm(gradients(), 1, 1).norm.item(), 7);
  const ClippedGradients largest = clip_grad_norm(gradients(), 1, kInfinity);
  EXPECT_DOUBLE_EQ(largest.norm.item(), 4);
  EXPECT_NEAR(largest.gradients[1].to_vector<double>()[1], -1, 1e-6);
  EXPECT_THROW(clip_grad_norm(gradients(), 1, 3), Error);
  EXPECT_THROW(clip_grad_norm(gradients(), 1, std::nan("")), Error);
  EXPECT_THROW(clip_grad_norm(gradients(), 0), Error);
  EXPECT_THROW(clip_grad_norm(gradients(), std::nan("")), Error);
}

TEST(ClipGradNorm, NothingEmptyAndMixedTypes) {
  EXPECT_EQ(clip_grad_norm({}, 1).norm.item(), 0);
  const std::vector<Tensor> mixed{zeros({0, 2}), full({2}, 30), full({1}, 40, DType::bfloat16),
                                  full({1}, 0, DType::float64)};
  for (const double type : {1.0, 2.0, kInfinity}) {
    const ClippedGradients result = clip_grad_norm(mixed, 1, type);
    EXPECT_GT(result.norm.item(), 39);
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      EXPECT_EQ(result.gradients[i].type(), mixed[i].type());
    }
  }
}

TEST(ClipGradNorm, ANaNIsSeenInTheNorm) {
  const std::vector<Tensor> bad{Tensor::from({std::nan(""), 1.0}, {2}), ones({1}, DType::float64)};
  EXPECT_TRUE(std::isnan(clip_grad_norm(bad, 1).norm.item()));
  EXPECT_TRUE(std::isnan(clip_grad_norm(bad, 1).gradients[1].item()));
}

TEST(ClipGradValue, ClampsEveryElement) {
  const std::vector<Tensor> clipped = clip_grad_value(std::vector<Tensor>{Tensor::from({-3.0F, 0.5F, 2.0F}, {3})}, 1);
  EXPECT_EQ(clipped[0].to_vector<float>(), (std::vector<float>{-1, 0.5F, 1}));
  EXPECT_THROW(clip_grad_value(gradients(), -1), Error);
}

TEST(Clipping, TheSameBitsInEveryGraph) {
  Rng rng(1);
  const std::vector<Tensor> g{rng.normal({33, 70}), rng.normal({5}), rng.normal({96, 40})};
  const auto clip = [](const std::vector<Tensor>& x) {
    ClippedGradients result = clip_grad_norm(x, 0.5);
    result.gradients.push_back(result.norm);
    const std::vector<Tensor> values = clip_grad_value(x, 0.1);
    result.gradients.insert(result.gradients.end(), values.begin(), values.end());
    return result.gradients;
  };
  const std::vector<Tensor> eager = clip(g);
  for (const testing::Variant& variant : testing::pipeline_variants()) {
    auto captured = jit(clip, {.pipeline = variant.pipeline});
    testing::expect_same_bits(captured(g), eager, variant.name);
  }
}

/// A training step over several batches, whose gradients are summed, clipped and applied: one graph.
TEST(Accumulation, TheSameBitsInEveryGraph) {
  Rng rng(2);
  const std::vector<Tensor> batches{rng.normal({40, 24}), rng.normal({40, 24}), rng.normal({40, 24})};
  const Tensor first = rng.normal({24, 33});
  const auto trained = [&](auto wrap) {
    Variable w(copy(first), "w");
    Variable b(zeros({33}), "b");
    Variable momentum(zeros({24, 33}), "momentum");
    auto gradient = value_and_grad(
        [&](const Tensor& x) { return mean(square(tanh(matmul(x, w.value()) + b.value()))); }, {.weights = {w, b}});
    auto step = wrap([&](const std::vector<Tensor>& parts) {
      std::vector<Tensor> total;
      for (const Tensor& part : parts) {
        const auto result = gradient(part);
        for (std::size_t i = 0; i < result.weights.size(); ++i) {
          i < total.size() ? void(total[i] = total[i] + result.weights[i]) : total.push_back(result.weights[i]);
        }
      }
      const ClippedGradients clipped = clip_grad_norm(total, 0.01);
      momentum.assign(momentum.value() * 0.9F + clipped.gradients[0]);
      w.assign(w.value() - momentum.value() * 0.1F);
      b.assign(b.value() - clipped.gradients[1] * 0.1F);
      return clipped.norm;
    });
    std::vector<Tensor> results;
    for (int i = 0; i < 3; ++i) {
      results.push_back(step(batches));
    }
    for (const Variable& state : {w, b, momentum}) {
      results.push_back(state.value());
    }
    return results;
  };
  const std::vector<Tensor> eager = trained([](auto step) { return step; });
  for (const testing::Variant& variant : testing::pipeline_variants()) {
    testing::expect_same_bits(trained([&](auto step) { return jit(std::move(step), {.pipeline = variant.pipeline}); }),
                              eager, variant.name);
  }
}

}  // namespace
}  // namespace diptych::optim
