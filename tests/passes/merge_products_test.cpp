// Small products of one input as one: every bit of eager, whatever the layouts, while weights stay the same and after
// they have changed; and what is left as it is.

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/ops/window_ops.h"
#include "framework/passes/pass.h"
#include "tests/support/with_gemm.h"
#include "tests/support/with_isa.h"
#include "tests/support/with_threads.h"

namespace diptych::testing {
namespace {

Tensor normal(std::uint64_t seed, const Shape& shape, DType dtype = DType::float32) {
  return Rng(seed).normal(shape, 0, 1, dtype);
}

using Function = std::function<std::vector<Tensor>(const Tensor&)>;

/// Of ops in the graph that a call has left.
std::size_t count_of(const graph::Jit<Function>& function, const OpDef& op) {
  const auto& nodes = function.compiled()->graph()->nodes;
  return static_cast<std::size_t>(
      std::count_if(nodes.begin(), nodes.end(), [&](const graph::Node& node) { return node.op == &op; }));
}

class MergeProducts : public ::testing::Test {
 protected:
  /// Three calls, since a graph packs in the first one.
  static void expect_bits(const Function& function, const Tensor& x, graph::Jit<Function>& graph) {
    const std::vector<Tensor> eager = function(x);
    for (int call = 0; call < 3; ++call) {
      const std::vector<Tensor> results = graph(x);
      ASSERT_EQ(results.size(), eager.size());
      for (std::size_t i = 0; i < eager.size(); ++i) {
        EXPECT_TRUE(bitwise_equal(eager[i], results[i])) << "call " << call << ", result " << i;
      }
    }
  }

 private:
  WithGemm tiles_{kernels::Gemm::tiles};
};

// Columns of all kinds: whole vectors, parts of them, more than a panel, one.
TEST_F(MergeProducts, HaveTheBitsOfEager) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor wide = normal(1, {40, 300}, dtype);
    const std::vector<Tensor> weights{normal(2, {40, 32}, dtype), transpose(normal(3, {21, 40}, dtype)),
                                      slice(wide, 1, 5, 295), slice(wide, 1, 1, 2), slice(wide, 1, 0, 60, 3)};
    const std::vector<Tensor> biases{normal(4, {32}, dtype), slice(normal(5, {42}, dtype), 0, 0, 42, 2),
                                     normal(6, {290}, dtype)};
    const Function function = [&](const Tensor& x) {
      std::vector<Tensor> results;
      for (const Tensor& weight : weights) {
        results.push_back(relu(matmul(x, weight)));
      }
      for (std::size_t i = 0; i < biases.size(); ++i) {
        results.push_back(neg(linear(x, weights[i], biases[i])));
      }
      return results;
    };
    const std::vector<Tensor> inputs{normal(7, {1, 40}, dtype),
                                     normal(8, {3, 40}, dtype),
                                     normal(9, {2, 2, 40}, dtype),
                                     transpose(normal(10, {40, 5}, dtype)),
                                     permute(normal(11, {2, 40, 2}, dtype), {2, 0, 1}),
                                     normal(12, {0, 40}, dtype)};
    for (int isa = 0; isa < kIsaCount && is_supported(static_cast<Isa>(isa)); ++isa) {
      const WithIsa with(static_cast<Isa>(isa));
      for (const int threads : {1, 3}) {
        const WithThreads some(threads, true);
        for (const Tensor& x : inputs) {
          SCOPED_TRACE(to_string(x.type()) + ", " + std::string(kIsaNames[static_cast<std::size_t>(isa)]) +
                       ", threads: " + std::to_string(threads));
          auto graph = jit(function);
          expect_bits(function, x, graph);
          graph::JitOptions options;
          options.pipeline.disabled = {passes::kPacking};
          options.pipeline.least_fused_bytes = 0;  // or the pass leaves them
          auto unpacked = jit(function, options);
          expect_bits(function, x, unpacked);
          EXPECT_EQ(count_of(unpacked, op::merged_linear), count_of(graph, op::merged_linear));
          const bool is_empty = x.shape().contains(0);
          EXPECT_EQ(count_of(graph, op::merged_linear), is_empty ? 0U : 2U);
          EXPECT_EQ(count_of(graph, op::matmul) + count_of(graph, op::linear), is_empty ? 8U : 0U);
        }
      }
    }
  }
}

// More than an op has inputs; and a view of a weight that two products read, behind the first of them.
TEST_F(MergeProducts, OfManyProductsAreSeveral) {
  std::vector<Tensor> weights;
  for (std::uint64_t i = 0; i < 9; ++i) {
    weights.push_back(normal(i, {10, 6}));
  }
  const Tensor biases = normal(20, {30});
  const Function function = [&](const Tensor& x) {
    Tensor sum = relu(matmul(x, weights[0]));
    for (std::size_t i = 1; i < 8; ++i) {
      sum = sum + relu(matmul(x, weights[i])) * static_cast<double>(i);
    }
    std::vector<Tensor> results{sum, reshape(matmul(x, weights[8]), {3, 2, 3}) * 2.0};
    const Tensor turned = transpose(normal(21, {6, 10}));
    for (std::int64_t i = 0; i < 5; ++i) {
      results.push_back(neg(
          linear(x, i % 2 == 0 ? weights[static_cast<std::size_t>(i)] : turned, slice(biases, 0, 6 * i, 6 * i + 6))));
    }
    return results;
  };
  auto graph = jit(function);
  expect_bits(function, normal(22, {3, 10}), graph);
  EXPECT_EQ(count_of(graph, op::merged_linear), 4U) << "seven and two without bias, three and two with it";
  EXPECT_EQ(count_of(graph, op::linear) + count_of(graph, op::matmul), 0U);
}

// One of them, and a part of it: what was packed is out of date as a whole.
TEST_F(MergeProducts, FollowWeightsAndBiasesThatChange) {
  std::vector<Variable> weights;
  std::vector<Variable> biases;
  for (std::uint64_t i = 0; i < 3; ++i) {
    weights.emplace_back(normal(i, {20, 24}), "weight");
    biases.emplace_back(normal(10 + i, {24}), "bias");
  }
  const Function function = [&](const Tensor& x) {
    const auto product = [&](std::size_t i) { return linear(x, weights[i].value(), biases[i].value()); };
    return std::vector<Tensor>{product(0) * product(1) + product(2)};
  };
  const Tensor x = normal(20, {2, 20});
  auto graph = jit(function);
  expect_bits(function, x, graph);
  EXPECT_EQ(count_of(graph, op::merged_linear), 1U);
  for (std::uint64_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    weights[i].assign(normal(30 + i, {20, 24}));
    expect_bits(function, x, graph);
    no_grad([&] { fill_(select(biases[i].value(), 0, 7), 3); });
    expect_bits(function, x, graph);
    weights[i].value().mutable_data<float>()[5] = 3;
    expect_bits(function, x, graph);
  }
}

TEST_F(MergeProducts, OfNonFiniteElementsStayInTheirColumns) {
  Tensor weight = normal(1, {16, 17});
  weight.mutable_data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
  weight.mutable_data<float>()[20] = std::numeric_limits<float>::infinity();
  const Tensor other = normal(2, {16, 31});
  const Function function = [&](const Tensor& x) {
    return std::vector<Tensor>{relu(matmul(x, weight)), abs(matmul(x, other))};
  };
  auto graph = jit(function);
  expect_bits(function, normal(3, {4, 16}), graph);
  EXPECT_EQ(count_of(graph, op::merged_linear), 1U);
}

// Nothing is gained by what takes long, and nothing could be packed of what changes in every call.
TEST_F(MergeProducts, LeaveWhatDoesNotPay) {
  const auto merged = [](const Function& function, const Tensor& x, std::set<std::string> disabled = {}) {
    auto graph = jit(function, {.pipeline = {.disabled = std::move(disabled)}});
    graph(x);
    return count_of(graph, op::merged_linear);
  };
  const Tensor q = normal(1, {64, 64});
  const Tensor k = normal(2, {64, 64});
  const auto two = [&](const Tensor& x) { return std::vector<Tensor>{relu(matmul(x, q)) + relu(matmul(x, k))}; };
  EXPECT_EQ(merged(two, normal(3, {4, 64})), 1U);
  EXPECT_EQ(merged(two, normal(3, {16, 64})), 0U) << "more rows";
  EXPECT_EQ(merged(two, normal(3, {4, 64}), {passes::kPacking}), 0U) << "put side by side in each call";
  const Tensor wide = normal(4, {64, 1024});
  const Tensor other_wide = normal(5, {64, 1024});
  EXPECT_EQ(
      merged([&](const Tensor& x) { return std::vector<Tensor>{relu(matmul(x, wide)) + exp(matmul(x, other_wide))}; },
             normal(3, {4, 64})),
      0U)
      << "longer products";
  EXPECT_EQ(merged(
                [&](const Tensor& x) {
                  return std::vector<Tensor>{reshape(matmul(x, q), {4, 8, 8}), relu(matmul(x, k))};
                },
                normal(3, {4, 64})),
            0U)
      << "a view of a result leaves the graph";
  EXPECT_EQ(merged(
                [&](const Tensor& x) {
                  return std::vector<Tensor>{neg(reshape(matmul(x, q), {-1})), relu(matmul(x, k))};
                },
                normal(3, {4, 64})),
            0U)
      << "a result is read as one row, which its columns aren't";
  EXPECT_EQ(merged(
                [&](const Tensor& x) {
                  const Tensor dead = exp(matmul(x, k));
                  return std::vector<Tensor>{relu(matmul(x, q))};
                },
                normal(3, {4, 64})),
            0U)
      << "nothing reads one of them";
  EXPECT_EQ(merged(
                [&](const Tensor& x) {
                  return std::vector<Tensor>{matmul(x, q), matmul(x, k)};
                },
                normal(3, {4, 64})),
            0U)
      << "the results leave the graph";
  EXPECT_EQ(merged([&](const Tensor& x) { return std::vector<Tensor>{relu(matmul(q, x)) + relu(matmul(k, x))}; },
                   normal(3, {64, 4})),
            0U)
      << "the input is on the right";
  EXPECT_EQ(merged([&](const Tensor& x) { return std::vector<Tensor>{relu(matmul(x, x)) + relu(matmul(x, exp(x)))}; },
                   normal(3, {8, 8})),
            0U)
      << "weights that are computed";
  Variable weight(q, "weight");
  EXPECT_EQ(merged(
                [&](const Tensor& x) {
                  const Tensor sum = relu(matmul(x, weight.value())) + relu(matmul(x, k));
                  weight.assign(weight.value() * 0.5);
                  return std::vector<Tensor>{sum};
                },
                normal(3, {4, 64})),
            0U)
      << "a state that the graph writes";
  const WithGemm blas(kernels::Gemm::openblas);
  EXPECT_EQ(merged(two, normal(3, {4, 64})), 0U) << "the bits of OpenBLAS depend on the shape";
}

}  // namespace
}  // namespace diptych::testing
