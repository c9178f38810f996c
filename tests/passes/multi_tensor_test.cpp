#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/parallel.h"
#include "framework/graph/fused_op.h"
#include "tests/graph/variants.h"
#include "tests/passes/programs.h"
#include "tests/support/with_threads.h"

namespace diptych::passes {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::wave;
using diptych::testing::WithThreads;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::names_of;

const std::string kTwoStates =
    "graph \"g\"(%0: f32[4] argument \"x\", %1: f32[2,3] argument \"y\", %2: f32[4] state \"w\", "
    "%3: f32[2,3] state \"b\", %4: f32[] argument \"rate\") {\n";

graph::Graph joined(const std::string& lines, const std::set<graph::ValueId>& vetoed = {},
                    std::vector<FusedKernel>* kernels = nullptr, std::size_t least_fused_bytes = 0) {
  graph::Graph graph = graph::parse(kTwoStates + lines + "}");
  PassContext context(graph);
  context.least_fused_bytes = least_fused_bytes;
  context.vetoed = vetoed;
  context.fused = kernels;
  join_updates(graph, context);
  graph::verify(graph);
  return graph;
}

const std::string kStep =
    "%5: f32[4] = axpby(%2, %0) {alpha=0.5, beta=1}\n%6: f32[4] = descend(%2, %5, %4)\n"
    "%7: f32[2,3] = axpby(%3, %1) {alpha=0.5, beta=1}\n%8: f32[2,3] = descend(%3, %7, %4)\n";
const std::string kUpdates = "update %2 <- %6\nupdate %3 <- %8\n";

TEST(MultiTensor, UpdatesOfOtherShapesAreOneNodeWhoseTextReadsBack) {
  const graph::Graph graph = joined(kStep + kUpdates + "return");
  ASSERT_THAT(names_of(graph), ElementsAre("fused"));
  EXPECT_THAT(graph.nodes[0].inputs, ElementsAre(2, 0, 4, 3, 1, 4));
  EXPECT_THAT(graph.nodes[0].outputs, ElementsAre(6, 8));
  ASSERT_EQ(graph.nodes[0].regions.size(), 2U);
  for (const auto& region : graph.nodes[0].regions) {
    EXPECT_THAT(names_of(*region), ElementsAre("axpby", "descend"));
  }
  EXPECT_EQ(graph::print(graph::parse(graph::print(graph))), graph::print(graph));
  EXPECT_EQ(graph::count_nodes(graph), 4U);
}

TEST(MultiTensor, OtherNumbersOtherOpsAndSingleScalarsStayApart) {
  std::string other = kStep;
  other.replace(other.rfind("alpha=0.5"), 9, "alpha=0.7");
  EXPECT_THAT(names_of(joined(other + kUpdates + "return")), ElementsAre("axpby", "descend", "axpby", "descend"));
  EXPECT_THAT(names_of(joined(kStep + "update %2 <- %6\nreturn %8")),
              ElementsAre("axpby", "descend", "axpby", "descend"));
}

TEST(MultiTensor, TinyTensorsStayApart) {
  EXPECT_THAT(names_of(joined(kStep + kUpdates + "return", {}, nullptr, kLeastFusedBytes)),
              ElementsAre("axpby", "descend", "axpby", "descend"));
}

// Each row of a tile would be filled by itself.
TEST(MultiTensor, WhatRepeatsValuesInShortRowsStaysApart) {
  graph::Graph graph = graph::parse(
      "graph \"g\"(%0: f32[256,64] argument \"x\", %1: f32[256,1] argument \"s\", %2: f32[256,64] state \"w\", "
      "%3: f32[256,64] state \"b\", %4: f32[] argument \"rate\") {\n"
      "%5: f32[256,64] = div(%0, %1)\n%6: f32[256,64] = descend(%2, %5, %4)\n"
      "%7: f32[256,64] = div(%6, %1)\n%8: f32[256,64] = descend(%3, %7, %4)\n"
      "update %2 <- %6\nupdate %3 <- %8\nreturn}");
  PassContext context(graph);
  context.least_fused_bytes = kLeastFusedBytes;
  join_updates(graph, context);
  EXPECT_THAT(names_of(graph), ::testing::IsSupersetOf({"div", "div"}));
}

TEST(MultiTensor, WhatIsReadBeforeTheLastUpdateIsntJoined) {
  const std::string between =
      "%5: f32[4] = descend(%2, %0, %4)\n%6: f32[4] = exp(%5)\n"
      "%7: f32[2,3] = descend(%3, %1, %4)\nupdate %2 <- %5\nupdate %3 <- %7\nreturn %6";
  EXPECT_THAT(names_of(joined(between)), ElementsAre("descend", "exp", "descend"));
}

TEST(MultiTensor, UpdatesDontWaitForAnotherKernel) {
  // An optimizer that runs in the backward pass gives each gradient back at once.
  const std::string lines =
      "%5: f32[4] = descend(%2, %0, %4)\n%6: f32[2,3] = softmax(%1)\n"
      "%7: f32[2,3] = descend(%3, %6, %4)\nupdate %2 <- %5\nupdate %3 <- %7\nreturn";
  EXPECT_THAT(names_of(joined(lines)), ElementsAre("descend", "softmax", "descend"));
}

TEST(MultiTensor, IsRecordedAndVetoed) {
  std::vector<FusedKernel> kernels;
  joined(kStep + kUpdates + "return", {}, &kernels);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].output, 6U);
  EXPECT_THAT(kernels[0].members, ElementsAre(8, 5, 6, 7));
  EXPECT_THAT(names_of(joined(kStep + kUpdates + "return", {8})), ElementsAre("axpby", "descend", "axpby", "descend"));
}

TEST(MultiTensor, DamagedNodesAreRefused) {
  const std::string good = graph::print(joined(kStep + kUpdates + "return"));
  const auto with = testing::errors_of(good);
  EXPECT_THAT(with("(%2, %0, %4, %3, %1, %4)", "(%2, %0, %4, %3, %1)"), HasSubstr("another number of inputs"));
  EXPECT_THAT(with("(%2, %0, %4, %3, %1, %4)", "(%2, %0, %4, %1, %3, %4, %4)"), HasSubstr("another number of inputs"));
  EXPECT_THAT(with("(%2, %0, %4, %3, %1, %4)", "(%2, %0, %4, %3, %0, %4)"), HasSubstr("another type"));
}

/// Three steps of Adam for tensors of one to 20,000 elements, and of none; two of them alike.
std::vector<Tensor> trained(bool as_graph, const Shape& large) {
  Variables parameters;
  std::vector<Tensor> gradients;
  for (const Shape& shape : {Shape{3}, Shape{1}, Shape{0, 4}, Shape{33, 31}, large, Shape{3}, Shape{64, 128}}) {
    parameters.emplace_back(wave(shape, 1), "p");
    gradients.push_back(wave(shape, 2));
  }
  optim::Adam adam(parameters, 1e-2);
  graph::JitFunction step(
      [&](std::span<const Tensor> with, std::shared_ptr<void>& /*structure*/) {
        adam.step(with);
        return std::vector<Tensor>();
      },
      {.pipeline = diptych::testing::fusing_all()});
  for (int i = 0; i < 3; ++i) {
    as_graph ? void(step.call(gradients, Location::current())) : adam.step(gradients);
  }
  if (as_graph) {
    // Beside it, what is computed once for all.
    EXPECT_LE(step.executable()->stats().instructions, 12U);
    EXPECT_EQ(step.executable()->stats().allocations, 0U);
  }
  std::vector<Tensor> results;
  for (const Variables& all : {parameters, adam.state()}) {
    for (const Variable& variable : all) {
      results.push_back(variable.value());
    }
  }
  return results;
}

TEST(MultiTensor, AnOptimizersStepHasEagersBitsOnAnyNumberOfThreads) {
  const std::vector<Tensor> eager = trained(false, {20'000});
  expect_same_bits(trained(true, {20'000}), eager, "one thread");
  const WithThreads threads(3);
  expect_same_bits(trained(true, {20'000}), eager, "three threads");
}

/// Gradients of two batches, summed, clipped and applied.
TEST(MultiTensor, ClippingIsInTheKernelOfTheUpdates) {
  const std::vector<Shape> shapes{{70, 64}, {96, 40}};
  const auto trained = [&](bool as_graph) {
    Variables parameters;
    std::vector<Tensor> gradients;
    for (const Shape& shape : shapes) {
      parameters.emplace_back(wave(shape, 1), "p");
    }
    for (const int batch : {2, 3}) {
      for (const Shape& shape : shapes) {
        gradients.push_back(wave(shape, batch));
      }
    }
    optim::SGD sgd(parameters, 0.1, 0.9);
    const auto step = [&](std::span<const Tensor> with) {
      const std::vector<Tensor> total{with[0] + with[2], with[1] + with[3]};
      sgd.step(optim::clip_grad_norm(total, 0.5).gradients);
    };
    graph::JitFunction compiled(
        [&](std::span<const Tensor> with, std::shared_ptr<void>& /*structure*/) {
          step(with);
          return std::vector<Tensor>();
        },
        {.pipeline = diptych::testing::fusing_all()});
    for (int i = 0; i < 2; ++i) {
      as_graph ? void(compiled.call(gradients, Location::current())) : step(gradients);
    }
    if (as_graph) {
      const graph::Node& updates = compiled.graph()->nodes.back();
      EXPECT_EQ(updates.regions.size(), 2U);
      for (const auto& region : updates.regions) {
        EXPECT_THAT(names_of(*region), ElementsAre("mul", "axpby", "descend"));
      }
    }
    return std::vector{parameters[0].value(), parameters[1].value()};
  };
  expect_same_bits(trained(true), trained(false), "clipped");
}

}  // namespace
}  // namespace diptych::passes
