// Which value a stage of the pipeline changes, and in which element.

#include "framework/runtime/check_stages.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"

namespace diptych::runtime {
namespace {

using diptych::testing::f32;
using ::testing::HasSubstr;

graph::Graph stage(const std::string& lines, const std::string& result) {
  return graph::parse("graph \"g\"(%0: f32[3] argument \"x\") {\n" + lines + "  return " + result + "\n}");
}
std::optional<Difference> difference_of(const graph::Graph& earlier, const graph::Graph& later,
                                        const std::vector<Tensor>& arguments) {
  return first_difference(evaluate_stage(earlier, arguments), evaluate_stage(later, arguments));
}
const std::vector<Tensor>& arguments() {
  static const std::vector<Tensor> all = {f32({1, 2, 3}, {3})};
  return all;
}

TEST(CheckStages, TheFirstValueThatDiffersIsNamed) {
  const graph::Graph before = stage("%1: f32[3] = exp(%0)\n%2: f32[3] = mul(%0, %0)\n%3: f32[3] = add(%1, %2)\n", "%3");
  const graph::Graph after = stage("%1: f32[3] = exp(%0)\n%2: f32[3] = add(%0, %0)\n%3: f32[3] = add(%1, %2)\n", "%3");
  EXPECT_EQ(difference_of(before, before, arguments()), std::nullopt);
  const auto found = difference_of(before, after, arguments());
  ASSERT_TRUE(found.has_value());
  // 1 + 1 isn't 1 * 1, and 2 + 2 is 2 * 2.
  EXPECT_EQ(to_string(*found), "%2 add, f32[3]: element 0 is 2 (0x1p+1), not 1 (0x1p+0)");
}

TEST(CheckStages, WhatHasAnotherNumberIsFoundAtTheResults) {
  const graph::Graph before = stage("%1: f32[3] = mul(%0, %0)\n", "%1");
  const auto found = difference_of(before, stage("%7: f32[3] = add(%0, %0)\n", "%7"), arguments());
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(to_string(*found), HasSubstr("(output 0), f32[3]: element 0 is 2"));
  EXPECT_EQ(difference_of(before, stage("%7: f32[3] = square(%0)\n", "%7"), arguments()), std::nullopt);
}

// Its update is dropped by a pass; the others stand where they stood.
TEST(CheckStages, AStateThatStaysWhatItIsMovesNoOther) {
  Variable kept(f32({4, 5}, {2}), "kept");
  Variable other(f32({0, 0, 0}, {3}), "other");
  std::vector<graph::Graph> stages;
  passes::PipelineOptions pipeline;
  pipeline.observe = [&](const std::string&, const graph::Graph& graph, bool) { stages.push_back(graph); };
  auto step = jit(
      [&](const Tensor& x) {
        kept.assign(copy(kept.value()));
        other.assign(x * x);
        return x + other.value();
      },
      {.pipeline = pipeline});
  step(arguments()[0]);
  ASSERT_EQ(stages.front().updates.size(), 2U);
  ASSERT_EQ(stages.back().updates.size(), 1U);
  EXPECT_THAT(differences_of(stages, arguments()), ::testing::Each(std::nullopt));
}

TEST(CheckStages, EachStageIsComparedWithTheOneBeforeIt) {
  const std::vector<graph::Graph> stages{
      stage("%1: f32[3] = mul(%0, %0)\n", "%1"), stage("%1: f32[3] = square(%0)\n", "%1"),
      stage("%1: f32[3] = add(%0, %0)\n", "%1"), stage("%1: f32[3] = add(%0, %0)\n", "%1")};
  const auto differences = differences_of(stages, arguments());
  ASSERT_EQ(differences.size(), 4U);
  EXPECT_EQ(differences[0], std::nullopt);
  EXPECT_EQ(differences[1], std::nullopt);
  ASSERT_TRUE(differences[2].has_value());
  EXPECT_EQ(to_string(*differences[2]), "%1 add, f32[3]: element 0 is 2 (0x1p+1), not 1 (0x1p+0)");
  EXPECT_EQ(differences[3], std::nullopt);
  EXPECT_TRUE(differences_of({}, arguments()).empty());
}

TEST(CheckStages, EveryBitCounts) {
  EXPECT_EQ(first_difference(f32({1, NAN}, {2}), f32({1, NAN}, {2})), std::nullopt);
  EXPECT_EQ(first_difference(f32({1, 0}, {2}), f32({1, -0.0F}, {2}))->element, 1);
  EXPECT_EQ(first_difference(f32({1, 2, 3, 4}, {2, 2}), transpose(f32({1, 2, 3, 4}, {2, 2})))->element, 1);
  EXPECT_EQ(first_difference(f32({1, 2}, {2}), f32({1, 2}, {2, 1}))->actual, "f32[2,1]");
}

TEST(CheckStages, VariablesKeepTheirValues) {
  Variable state(f32({1, 2, 3}, {3}));
  const auto step = [&](const Tensor& x) {
    state.assign(state.value() + x);
    return state.value();
  };
  std::vector<graph::Graph> stages;
  passes::PipelineOptions pipeline = diptych::testing::fusing_all();
  pipeline.observe = [&](const std::string&, const graph::Graph& graph, bool) { stages.push_back(graph); };
  jit(step, {.pipeline = pipeline})(arguments()[0]);
  const Tensor now = copy(state.value());
  for (const graph::Graph& each : stages) {
    EXPECT_EQ(difference_of(stages.front(), each, arguments()), std::nullopt);
  }
  EXPECT_TRUE(bitwise_equal(state.value(), now));
}

}  // namespace
}  // namespace diptych::runtime
