// Another framework's own profile, matched with the program's ops: by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/external_nodes.h"

namespace diptych::reports {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// linear, gelu, linear, add, layer_norm, reshape.
std::vector<SourceOp> program() {
  std::vector<SourceOp> ops;
  for (const char* op : {"linear", "gelu", "linear", "add", "layer_norm", "reshape"}) {
    ops.push_back({ops.size() + 1, op, "", "", ""});
  }
  return ops;
}

SourceOpsOfNodes names() {
  return {{"MatMul_1", {1}}, {"Add_2", {1}},  {"Gelu_3", {2}},       {"MatMul_10", {3}},
          {"Add_11", {3}},   {"Add_12", {4}}, {"LayerNorm_13", {5}}, {"Reshape_14", {6}}};
}

TEST(ExternalNodes, AreMatchedByTheNamesInTheirOwn) {
  const std::vector<ExternalNode> nodes = {{"MatMul_1/MatMulAddFusion", "FusedMatMul"},
                                           {"Gelu_3", "Gelu"},
                                           {"MatMul_10_Add_12", "Gemm"},  // of two source ops
                                           {"LayerNorm_13", "LayerNormalization"}};
  EXPECT_THAT(source_ops_of_nodes(nodes, names(), program()),
              ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3, 4), ElementsAre(5)));
}

TEST(ExternalNodes, ANameThatIsPartOfALongerOneIsNotMeant) {
  const std::vector<ExternalNode> nodes = {{"MatMul_100", "MatMul"}, {"xMatMul_1", "MatMul"}};
  const SourceOpsOfNodes known = {{"MatMul_1", {1}}, {"MatMul_10", {3}}, {"", {2}}};
  EXPECT_THAT(source_ops_of_nodes(nodes, known, {}), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(ExternalNodes, OfTheFrameworksMakingAreMatchedByOrder) {
  const std::vector<ExternalNode> nodes = {{"MatMul_1", "Gemm"},      {"fused 0", "BiasGelu"},  // 2, which has no node
                                           {"MatMul_10", "MatMul"},   {"fused 1", "SkipLayerNormalization"},  // 4 and 5
                                           {"Reshape_14", "Reshape"}, {"made up", "MemcpyToHost"}};  // nothing is left
  EXPECT_THAT(
      source_ops_of_nodes(nodes, names(), program()),
      ElementsAre(ElementsAre(1), ElementsAre(2), ElementsAre(3), ElementsAre(4, 5), ElementsAre(6), IsEmpty()));
}

TEST(ExternalNodes, AnArmAddsUpAndSaysWhatItRuns) {
  const std::vector<ExternalNode> nodes = {{"MatMul_1", "MatMul", 2e-3},  {"Add_2", "Add", 1e-3},
                                           {"MatMul_10", "MatMul", 3e-3}, {"fused", "SkipLayerNormalization", 4e-3},
                                           {"Reshape_14", "Reshape", 0},  {"made up", "relu", 1e-3}};
  const ProfiledArm other = external_arm("other", nodes, names(), program(), 12e-3);
  EXPECT_EQ(other.fates.at(1), (OpFate{Fate::node, {"MatMul", "Add"}}));
  EXPECT_EQ(other.fates.at(2), (OpFate{Fate::unseen}));
  EXPECT_EQ(other.fates.at(4), (OpFate{Fate::node, {"SkipLayerNormalization"}}));
  ProfileInput input{program(), {{"eager", {}, {}, 0, 20e-3}, other}, {}};
  for (const SourceOp& op : input.ops) {  // add 1 ms, layer_norm 3 ms
    input.arms[0].kernels.push_back({op.op, {op.id}, op.id == 4 ? 1e-3 : 3e-3});
  }
  const AlignedProfile profile = align(input, ProfileBy::op);
  double sum = 0;
  std::map<std::string, ArmOfRow> rows;
  for (const AlignedRow& row : profile.rows) {
    sum += row.arms[1].seconds.value_or(0);
    rows[row.name] = row.arms[1];
  }
  EXPECT_NEAR(sum, 12e-3, 1e-12);
  EXPECT_NEAR(*rows.at("linear").seconds, 6e-3, 1e-12);
  EXPECT_FALSE(rows.at("linear").is_estimate);
  EXPECT_FALSE(rows.at("gelu").seconds.has_value());
  EXPECT_NEAR(*rows.at("add").seconds, 1e-3, 1e-12);  // a quarter of the fused node, as in eager
  EXPECT_NEAR(*rows.at("layer_norm").seconds, 3e-3, 1e-12);
  EXPECT_TRUE(rows.at("add").is_estimate);
  EXPECT_NEAR(*rows.at("relu (other)").seconds, 1e-3, 1e-12);  // isn't taken for an op of the program's
  EXPECT_NEAR(*rows.at("(outside ops)").seconds, 1e-3, 1e-12);
}

}  // namespace
}  // namespace diptych::reports
