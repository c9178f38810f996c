// Sums of whole tensors with what makes them: bits of eager, and one kernel for both.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/graph/fused_op.h"
#include "framework/ops/reduction_ops.h"
#include "tests/graph/variants.h"
#include "tests/support/with_threads.h"

namespace diptych::passes {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::pipeline_variants;
using diptych::testing::Variant;
using Of = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

std::vector<Tensor> random(std::initializer_list<Shape> shapes, DType dtype = DType::float32) {
  std::vector<Tensor> tensors;
  for (const Shape& shape : shapes) {
    tensors.push_back(Rng(tensors.size() + 1).normal(shape, 0, 1, dtype));
  }
  return tensors;
}

/// How many ops stand in the kernel that takes sums of rows of 4,096 elements, views aside, where everything is fused
/// that can be; 0 if there is none. Expects eager's bits in this and every other variant of the pipeline.
std::size_t ops_beside_sum(const Of& fn, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> expected = fn(inputs);
  std::size_t ops = 0;
  for (const Variant& variant : pipeline_variants()) {
    auto function = jit(fn, {.pipeline = variant.pipeline});
    const std::vector<Tensor> actual = function(inputs);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expect_same_bits(actual[i], expected[i], variant.name + ", result " + std::to_string(i));
    }
    if (variant.name != "fused") {
      continue;
    }
    for (const graph::Node& node : function.compiled()->graph()->nodes) {
      for (const auto& region : node.regions) {
        const bool sums_rows = std::any_of(region->nodes.begin(), region->nodes.end(), [&](const graph::Node& inner) {
          return inner.op == &op::sum && region->types[inner.inputs[0]].shape.back() == 4096;
        });
        ops += sums_rows ? graph::count_nodes(*region) : 0;
      }
    }
  }
  return ops;
}

TEST(SplitSums, OfElementwiseOpsAreInTheirKernel) {
  const Of squares = [](const std::vector<Tensor>& x) { return std::vector{sum(square(sub(x[0], x[1])))}; };
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const Shape& shape : {Shape{8192}, Shape{64, 4096}, Shape{96, 128}, Shape{3, 4, 2048, 2}, Shape{2048, 768}}) {
      EXPECT_EQ(ops_beside_sum(squares, random({shape, shape}, dtype)), 3) << to_string(shape);
    }
  }
  EXPECT_EQ(ops_beside_sum([](const std::vector<Tensor>& x) { return std::vector{mean(abs(x[0] * 0.5 + 1))}; },
                           random({{128, 96}})),
            4)
      << "numbers";
  EXPECT_EQ(
      ops_beside_sum([](const std::vector<Tensor>& x) { return std::vector{sum(exp(mul(x[0], x[1])), {}, true)}; },
                     random({{4, 128, 96}, {1, 1, 1}})),
      3)
      << "one element of three axes, and axes kept";
}

// Summed in f32 and rounded once: 96 sums of 4,111, each of which bf16 would round to 4,096.
TEST(SplitSums, BrainFloatsAreRoundedOnce) {
  std::vector<float> elements(96 * 4096, 1);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] += i % 4096 < 15 ? 1 : 0;
  }
  const Tensor x = cast(Tensor::from(elements, {384, 1024}), DType::bfloat16);
  EXPECT_EQ(ops_beside_sum([](const std::vector<Tensor>& in) { return std::vector{sum(relu(abs(in[0])))}; }, {x}), 0);
  EXPECT_EQ(sum(x).item(), 395264);
}

TEST(SplitSums, TakeAlongWhatReadsTheSameValues) {
  const Of loss_and_gradient = [](const std::vector<Tensor>& x) {
    const auto loss = [&](const Tensor& a) { return mean(square(sub(a, x[1]))); };
    const auto both = value_and_grad(loss)(x[0]);
    return std::vector{both.value, both.arguments.at(0)};
  };
  EXPECT_EQ(ops_beside_sum(loss_and_gradient, random({{128, 96}, {128, 96}})), 4);
  const Of read_otherwise = [](const std::vector<Tensor>& x) {
    const Tensor difference = sub(x[0], x[1]);
    return std::vector{sum(square(difference)), difference, matmul(difference, transpose(difference))};
  };
  EXPECT_EQ(ops_beside_sum(read_otherwise, random({{128, 96}, {128, 96}})), 3);
  const Of two = [](const std::vector<Tensor>& x) {
    const Tensor difference = sub(x[0], x[1]);
    return std::vector{sum(square(difference)), sum(abs(difference))};
  };
  EXPECT_EQ(ops_beside_sum(two, random({{128, 96}, {128, 96}})), 5);
  // What depends on the sum can't be in its kernel.
  const Of centred = [](const std::vector<Tensor>& x) {
    const Tensor y = exp(x[0]);
    return std::vector{mul(sub(y, mean(y)), y)};
  };
  EXPECT_EQ(ops_beside_sum(centred, random({{128, 96}})), 2);
}

TEST(SplitSums, LeaveWhatIsNoRowsOfABlock) {
  const Of squares = [](const std::vector<Tensor>& x) { return std::vector{sum(square(sub(x[0], x[1])))}; };
  EXPECT_EQ(ops_beside_sum(squares, random({{127, 300}, {127, 300}})), 0) << "a part of a block is left";
  EXPECT_EQ(ops_beside_sum([](const std::vector<Tensor>& x) { return std::vector{sum(sub(x[0], x[1]))}; },
                           random({{128, 96}, {96}})),
            0)
      << "a row for all rows";
  EXPECT_EQ(ops_beside_sum([](const std::vector<Tensor>& x) { return std::vector{sum(square(transpose(x[0])))}; },
                           random({{128, 96}})),
            0)
      << "turned: another order";
  EXPECT_EQ(ops_beside_sum([](const std::vector<Tensor>& x) { return std::vector{sum(x[0])}; }, random({{128, 96}})), 0)
      << "nothing to join";
  EXPECT_EQ(ops_beside_sum(
                [](const std::vector<Tensor>& x) {
                  const Tensor y = exp(x[0]);
                  return std::vector{sum(y), softmax(y)};
                },
                random({{128, 96}})),
            0)
      << "an op of rows reads it";
}

TEST(SplitSums, AreTheSameOnSeveralThreads) {
  const std::vector<Tensor> x = random({{512, 1024}, {512, 1024}});
  const auto squares = [](const Tensor& a, const Tensor& b) { return sum(square(sub(a, b))); };
  const Tensor expected = squares(x[0], x[1]);
  for (const int threads : {2, 3}) {
    const diptych::testing::WithThreads with(threads, true);
    auto function = jit(squares);
    EXPECT_TRUE(bitwise_equal(function(x[0], x[1]), expected)) << threads;
  }
}

}  // namespace
}  // namespace diptych::passes
