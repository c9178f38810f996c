// What the suites promise: a step of every costly workload is the same bits in eager and as a graph (the others are in
// arms_test.cpp), models have the published sizes, and the digits have the published split.

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/workloads/costly.h"
#include "workloads/arms/arm.h"
#include "workloads/suites/programs.h"

namespace diptych::workloads {
namespace {

std::vector<std::string> costly_names() {
  std::vector<std::string> names;
  for (const Workload& workload : all_workloads()) {
    if (testing::is_costly(workload)) {
      names.push_back(workload.name);
    }
  }
  return names;
}

class CostlyWorkload : public ::testing::TestWithParam<std::string> {};

TEST_P(CostlyWorkload, AStepIsTheSameBitsEagerAndAsAGraph) {
  const Workload& workload = *find_workload(GetParam());
  ArmInstance eager(workload, *find_arm("eager"), 1);
  ArmInstance graph(workload, *find_arm("graph"), 1);
  const std::vector<Tensor> expected = eager.call(0);
  const std::vector<Tensor> outputs = graph.call(0);
  ASSERT_FALSE(expected.empty() && eager.program().state().empty());
  ASSERT_EQ(outputs.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(outputs[i], expected[i])) << "output " << i;
    EXPECT_TRUE(std::isfinite(sum(cast(expected[i], DType::float64)).item())) << "output " << i;
  }
  const Variables state = eager.program().state();
  const Variables graph_state = graph.program().state();
  ASSERT_EQ(graph_state.size(), state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(graph_state[i].value(), state[i].value())) << state[i].name();
  }
}

INSTANTIATE_TEST_SUITE_P(Suites, CostlyWorkload, ::testing::ValuesIn(costly_names()), [](const auto& test) {
  std::string name = test.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

/// The parameters, without running statistics and optimizer state.
std::int64_t parameter_count(const char* workload) {
  std::int64_t count = 0;
  for (const Variable& variable : find_workload(workload)->make(1)->state()) {
    if (variable.name().find("running_") == std::string::npos) {
      count += variable.value().numel();
    }
  }
  return count;
}

// Figures of timm and torchvision: vit_tiny_patch16_224, vit_base_patch16_224, resnet18.
TEST(Models, HaveThePublishedSizes) {
  EXPECT_EQ(parameter_count("vit/tiny"), 5717416);
  EXPECT_EQ(parameter_count("vit/b16"), 86567656);
  EXPECT_EQ(parameter_count("conv/resnet18"), 11689512);
}

TEST(Models, TheReferenceTransformerIsTheSameInAllItsWorkloads) {
  // Patches 768 x 256 + 256, class token 256, positions 197 x 256, two norms 2 x 256, attention 4 (256^2 + 256), head
  // 25700.
  constexpr std::int64_t kParameters = 196864 + 256 + 50432 + 1024 + 263168 + 25700;
  EXPECT_EQ(parameter_count("vit/reference-b1"), kParameters);
  EXPECT_EQ(parameter_count("vit/reference-b32"), kParameters);
}

// Batch norm in evaluation: two calls give the same, and no statistic moves.
TEST(Models, InferenceChangesNoState) {
  for (const char* name : {"conv/block", "gpt/mini-infer", "vit/reference-b1"}) {
    const std::unique_ptr<Program> program = find_workload(name)->make(1);
    std::vector<Tensor> before;
    for (const Variable& variable : program->state()) {
      before.push_back(variable.value());
    }
    const Tensor first = program->body(program->inputs(0))[0];
    EXPECT_TRUE(bitwise_equal(first, program->body(program->inputs(1))[0])) << name;
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(bitwise_equal(before[i], program->state()[i].value())) << name;
    }
  }
}

TEST(Suites, CausalAttentionSeesNothingAhead) {
  const std::unique_ptr<Program> program = find_workload("attention/sdpa-causal-64")->make(1);
  std::vector<Tensor> inputs(program->inputs(0).begin(), program->inputs(0).end());
  const Tensor whole = program->body(inputs)[0];
  for (std::size_t i = 1; i < 3; ++i) {  // other keys and values in the last column
    inputs[i] = slice_update(inputs[i], full({}, 7.0), 2, 63, 64);
  }
  const Tensor changed = program->body(inputs)[0];
  EXPECT_TRUE(bitwise_equal(slice(whole, 2, 0, 63), slice(changed, 2, 0, 63)));
  EXPECT_FALSE(bitwise_equal(slice(whole, 2, 63, 64), slice(changed, 2, 63, 64)));
}

TEST(Suites, DigitsAreSplitOnceAndWhole) {
  const data::Split split = split_digits({1, 8, 8}, 3);
  EXPECT_EQ(split.train.size(), DigitsSchedule::kTrained);
  EXPECT_EQ(split.train.size() + split.test.size(), 1797);
  EXPECT_EQ(split.train.inputs.shape(), (Shape{1438, 1, 8, 8}));
  EXPECT_TRUE(bitwise_equal(reshape(split.train.inputs, {1438, 64}), split_digits({64}, 3).train.inputs));
}

TEST(Suites, TheDefaultSetHasOneOfEachSuite) {
  std::set<std::string> suites = {"loss"};  // whose one workload says no more than others do
  for (const std::string& name : names_of_default_set()) {
    suites.insert(find_workload(name)->suite);
  }
  EXPECT_THAT(suite_names(), ::testing::UnorderedElementsAreArray(suites));
  EXPECT_EQ(names_of_suite("all").size(), all_workloads().size());
  EXPECT_THAT(names_of_suite("none"), ::testing::IsEmpty());
}

}  // namespace
}  // namespace diptych::workloads
