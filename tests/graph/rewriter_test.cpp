// The rewriter and the lists of users, from which passes are made.

#include "framework/graph/rewriter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/graph/layouts.h"
#include "framework/ops/elementwise_ops.h"
#include "framework/ops/reduction_ops.h"
#include "tests/graph/variants.h"
#include "tests/support/with_gemm.h"

namespace diptych::graph {
namespace {

using diptych::testing::f32;
using diptych::testing::message_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// %1 <- %3; returns %4 = neg(mul(%0 + %1, %0 + %1)) and %2 itself.
Graph sample() {
  Graph graph = parse(
      "graph \"g\"(%0: f32[2] argument \"x\", %1: f32[2] state \"v\") {\n"
      "  %2: f32[2] = add(%0, %1)\n"
      "  %3: f32[2] = mul(%2, %2)\n"
      "  %4: f32[2] = neg(%3)\n"
      "  update %1 <- %3\n"
      "  return %4, %2\n}");
  graph.inputs[1].variable = Variable(f32({0, 0}, {2}), "v");
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    graph.nodes[i].provenance.source_ops = {i};
  }
  return graph;
}

std::vector<std::string> lines(const Graph& graph) {
  std::vector<std::string> lines;
  for (const Node& node : graph.nodes) {
    lines.push_back(print_node(graph, node));
  }
  return lines;
}

TEST(Users, AreTheNodesThatReadAValueOnceForEachTime) {
  const Graph graph = sample();
  const Users users(graph);
  EXPECT_THAT(users.of(0), ElementsAre(0));
  EXPECT_THAT(users.of(2), ElementsAre(1, 1));
  EXPECT_THAT(users.of(3), ElementsAre(2));
  EXPECT_THAT(users.of(4), IsEmpty());
  EXPECT_EQ(users.count(2), 2U);
  EXPECT_TRUE(users.is_result(2)) << "it is returned";
  EXPECT_TRUE(users.is_result(3)) << "it is what the state becomes";
  EXPECT_FALSE(users.is_result(0));
}

TEST(Rewriter, ChangesNothingUnlessTold) {
  Graph graph = sample();
  const std::string before = print(graph);
  std::vector<const OpDef*> seen;
  EXPECT_FALSE(Rewriter(graph).run([&](Node& node) { seen.push_back(node.op); }));
  EXPECT_THAT(seen, ElementsAre(&op::add, &op::mul, &op::neg)) << "in order of execution";
  EXPECT_EQ(print(graph), before);
}

TEST(Rewriter, InsertsBeforeTheNodeWithTypeAndProvenance) {
  Graph graph = sample();
  Rewriter rewriter(graph);
  EXPECT_TRUE(rewriter.run([&](Node& node) {
    if (node.op == &op::neg) {
      const ValueId squared = rewriter.insert(op::abs, {node.inputs[0]}, {}, node);
      EXPECT_EQ(rewriter.type(squared), (TensorType{DType::float32, {2}}));
      ASSERT_NE(rewriter.producer(squared), nullptr);
      EXPECT_EQ(rewriter.producer(squared)->op, &op::abs);
      node.inputs[0] = squared;
    }
  }));
  EXPECT_NO_THROW(verify(graph));
  EXPECT_THAT(lines(graph), ElementsAre("%2: f32[2] = add(%0, %1)", "%3: f32[2] = mul(%2, %2)", "%5: f32[2] = abs(%3)",
                                        "%4: f32[2] = neg(%5)"));
  EXPECT_THAT(graph.nodes[2].provenance.source_ops, ElementsAre(2)) << "of the node that it is for";
}

TEST(Rewriter, RefusesToInsertWhatTheOpRefuses) {
  Graph graph = sample();
  const ValueId other = graph.new_value({DType::float32, {3}});
  Rewriter rewriter(graph);
  EXPECT_NE(message_of<InternalError>([&] {
              rewriter.run([&](Node& node) { rewriter.insert(op::add, {node.inputs[0], other}, {}, node); });
            }),
            "");
}

TEST(Rewriter, InfersWithoutChangingAnything) {
  Graph graph = sample();
  const ValueId other = graph.new_value({DType::float32, {3}});
  const Rewriter rewriter(graph);
  EXPECT_EQ(rewriter.inferred(op::add, std::vector<ValueId>{0, 1}, {}), (TensorType{DType::float32, {2}}));
  EXPECT_EQ(rewriter.inferred(op::add, std::vector<ValueId>{0, other}, {}), std::nullopt) << "shapes that don't match";
}

TEST(Rewriter, ReplacesForLaterNodesOutputsAndUpdates) {
  Graph graph = sample();
  Rewriter rewriter(graph);
  rewriter.run([&](Node& node) {
    if (node.op == &op::mul) {
      rewriter.replace(node, node.inputs[0]);
      rewriter.drop(node);
    }
  });
  EXPECT_NO_THROW(verify(graph));
  EXPECT_THAT(lines(graph), ElementsAre("%2: f32[2] = add(%0, %1)", "%4: f32[2] = neg(%2)"));
  EXPECT_THAT(graph.updates, ElementsAre(::testing::Field(&Update::value, 2)));
  EXPECT_THAT(graph.nodes[0].provenance.source_ops, ElementsAre(0, 1)) << "it stands for both now";
}

TEST(Rewriter, FollowsReplacementsOfReplacements) {
  Graph graph = sample();
  Rewriter rewriter(graph);
  rewriter.run([&](Node& node) {
    rewriter.replace(node, node.inputs[0]);
    rewriter.drop(node);
  });
  EXPECT_NO_THROW(verify(graph));
  EXPECT_THAT(graph.nodes, IsEmpty());
  EXPECT_THAT(graph.outputs, ElementsAre(0, 0));
  ASSERT_THAT(graph.updates, ElementsAre(::testing::Field(&Update::value, 0)));
}

TEST(Rewriter, AnUpdateToTheStateItselfGoes) {
  Graph graph = sample();
  Rewriter rewriter(graph);
  rewriter.run([&](Node& node) {
    if (node.op == &op::mul) {
      rewriter.replace(node, 1);
      rewriter.drop(node);
    }
  });
  EXPECT_NO_THROW(verify(graph));
  EXPECT_THAT(graph.updates, IsEmpty());
}

TEST(Rewriter, MakesConstantsAndFindsThem) {
  Graph graph = sample();
  Rewriter rewriter(graph);
  rewriter.run([&](Node& node) {
    if (node.op == &op::add) {
      rewriter.become_constant(node, f32({1, 2}, {2}));
    } else if (node.op == &op::mul) {
      ASSERT_NE(rewriter.constant(node.inputs[0]), nullptr);
      EXPECT_EQ(rewriter.producer(node.inputs[0]), nullptr);
      const ValueId other = rewriter.insert_constant(f32({3, 4}, {2}));
      rewriter.become(node, op::sub, {node.inputs[0], other}, {});
    }
  });
  EXPECT_NO_THROW(verify(graph));
  EXPECT_THAT(lines(graph), ElementsAre("%3: f32[2] = sub(%2, %5)", "%4: f32[2] = neg(%3)"));
  ASSERT_EQ(graph.constants.size(), 2U);
}

TEST(FixedLayouts, AreWhatOpenBlasReadsThroughViewsToo) {
  const Graph graph = parse(
      "graph \"g\"(%0: f32[2,2] argument \"x\", %1: f32[2,2] argument \"y\") {\n"
      "  %2: f32[2,2] = neg(%0)\n"
      "  %3: f32[2,2] = permute(%2) {axes=[1,0]}\n"
      "  %4: f32[2,2] = matmul(%3, %1)\n"
      "  %5: f32[2,2] = neg(%4)\n"
      "  return %5\n}");
  EXPECT_FALSE(FixedLayouts(graph).contains(3));
  const diptych::testing::WithGemm blas(kernels::Gemm::openblas);
  const FixedLayouts fixed(graph);
  EXPECT_TRUE(fixed.contains(3));
  EXPECT_TRUE(fixed.contains(2)) << "the view has its strides";
  EXPECT_TRUE(fixed.contains(1));
  EXPECT_FALSE(fixed.contains(0));
  EXPECT_FALSE(fixed.contains(4));
  EXPECT_FALSE(fixed.contains(99));
}

}  // namespace
}  // namespace diptych::graph
