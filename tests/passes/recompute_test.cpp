// Cheap results that wait for the backward pass are computed again: on the text of graphs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/passes/pass.h"
#include "tests/passes/programs.h"

namespace diptych::passes {
namespace {

using ::testing::ElementsAre;
using testing::names_of;

const std::string kType = "f32[1024,1024]";

struct Recomputed {
  bool changed;
  graph::Graph graph;
};

Recomputed recomputed(const std::string& lines, const std::string& results, const std::string& type = kType) {
  Recomputed result{false, testing::program_of(type, lines, results)};
  result.changed = recompute(result.graph, PassContext(result.graph));
  graph::verify(result.graph);
  return result;
}

std::string node_line(int value, const std::string& call, const std::string& type = kType) {
  return "%" + std::to_string(value) + ": " + type + " = " + call + "\n";
}

/// Most is needed at %6: what it reads and makes, %2, which is read at the end, and %3, which the product before that
/// reads again.
std::string start_of(const std::string& cheap, const std::string& type = kType) {
  return node_line(2, "matmul(%0, %1)", type) + node_line(3, cheap + "(%2)", type) +
         node_line(4, "matmul(%3, %1)", type) + node_line(5, "matmul(%4, %1)", type) +
         node_line(6, "add(%4, %5)", type);
}
std::string rest_of(const std::string& product, const std::string& last, const std::string& type = kType) {
  return node_line(8, "matmul(" + product + ", %6)", type) + node_line(9, last, type);
}

TEST(Recompute, AResultIsComputedAgainWhereItIsReadNext) {
  const Recomputed result = recomputed(start_of("relu") + rest_of("%3", "add(%8, %2)"), "%9");
  ASSERT_TRUE(result.changed);
  EXPECT_THAT(names_of(result.graph),
              ElementsAre("matmul", "relu", "matmul", "matmul", "add", "relu", "matmul", "add"));
  const graph::Node& again = result.graph.nodes[5];
  EXPECT_EQ(again.inputs, result.graph.nodes[1].inputs);
  EXPECT_EQ(result.graph.nodes[6].inputs[0], again.output());
  EXPECT_EQ(result.graph.nodes[2].inputs[0], result.graph.nodes[1].output()) << "before the peak it is as it was";
}

TEST(Recompute, NotIfItsInputIsGone) {
  EXPECT_FALSE(recomputed(start_of("relu") + rest_of("%3", "neg(%8)"), "%9").changed);
}

TEST(Recompute, NotIfItIsAResult) {
  EXPECT_FALSE(recomputed(start_of("relu") + rest_of("%3", "add(%8, %2)"), "%9, %3").changed);
}

TEST(Recompute, NotIfItTakesTooMuchTime) {
  const std::string small = "f32[128,128]";  // 64 KiB: whose products take hardly longer
  EXPECT_FALSE(recomputed(start_of("relu", small) + rest_of("%3", "add(%8, %2)", small), "%9", small).changed);
  EXPECT_FALSE(recomputed(node_line(2, "matmul(%0, %1)") + node_line(3, "matmul(%2, %1)") +
                              node_line(4, "matmul(%3, %1)") + node_line(5, "matmul(%4, %1)") +
                              node_line(6, "add(%4, %5)") + rest_of("%3", "add(%8, %2)"),
                          "%9")
                   .changed)
      << "a product";
}

TEST(Recompute, ViewsOfItAreMadeAgain) {
  const Recomputed result =
      recomputed(node_line(2, "matmul(%0, %1)") + node_line(3, "relu(%2)") + node_line(7, "permute(%3) {axes=[1,0]}") +
                     node_line(4, "matmul(%3, %1)") + node_line(5, "matmul(%4, %1)") + node_line(6, "add(%4, %5)") +
                     rest_of("%7", "add(%8, %2)"),
                 "%9");
  ASSERT_TRUE(result.changed);
  EXPECT_THAT(names_of(result.graph),
              ElementsAre("matmul", "relu", "permute", "matmul", "matmul", "add", "relu", "permute", "matmul", "add"));
  EXPECT_EQ(result.graph.nodes[8].inputs[0], result.graph.nodes[7].output());
}

}  // namespace
}  // namespace diptych::passes
