// The table of arms: each rung adds one cause, everything is in the last one, and names mean what they say.

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "workloads/arms/arm.h"

namespace diptych::workloads {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::set<std::string> every_step() {
  std::set<std::string> steps = {passes::kInPlace, passes::kMemoryPlan};
  for (const passes::Pass& pass : passes::pipeline()) {
    steps.insert(pass.name);
  }
  return steps;
}

TEST(Ladder, EveryPassBelongsToOneRung) {
  std::multiset<std::string> in_rungs;
  for (const Rung& rung : pass_rungs()) {
    in_rungs.insert(rung.steps.begin(), rung.steps.end());
  }
  const std::set<std::string> steps = every_step();
  EXPECT_EQ(in_rungs, std::multiset<std::string>(steps.begin(), steps.end()));
}

TEST(Ladder, EachRungSwitchesItsOwnPassesOnAndNoOther) {
  std::set<std::string> off = every_step();
  EXPECT_EQ(find_arm("replay")->pipeline->disabled, off);
  for (const Rung& rung : pass_rungs()) {
    for (const char* step : rung.steps) {
      off.erase(step);
    }
    const Arm* arm = find_arm(rung.name);
    ASSERT_NE(arm, nullptr) << rung.name;
    EXPECT_EQ(arm->pipeline->disabled, off) << rung.name;
    EXPECT_EQ(arm->cause, rung.cause);
  }
}

TEST(Ladder, GraphIsTheLastExactRungAndMeasuredOnce) {
  EXPECT_THAT(find_arm("graph")->pipeline->disabled, IsEmpty());
  EXPECT_EQ(find_arm("+simplify"), find_arm("graph"));
  EXPECT_EQ(find_arm("graph")->rung, "+simplify");
  EXPECT_THAT(ladder_arms(), ElementsAre("eager", "replay", "+plan", "graph"));
}

TEST(Ladder, AnySetOfRungsHasAName) {
  const Arm* simplify = find_arm("replay+simplify");
  ASSERT_NE(simplify, nullptr);
  EXPECT_EQ(simplify, find_arm("replay+simplify"));
  EXPECT_EQ(simplify->pipeline->disabled, (std::set<std::string>{passes::kInPlace, passes::kMemoryPlan}));
  EXPECT_THAT(simplify->groups, ElementsAre("+simplify"));
  EXPECT_FALSE(simplify->in_ladder);
  EXPECT_EQ(find_arm("replay+plan"), find_arm("+plan")) << "nothing is measured twice";
  EXPECT_EQ(find_arm("replay+plan+simplify"), find_arm("graph"));
  for (const char* wrong : {"replay+simplify+plan", "replay+plan+plan", "replay+", "replay+pla", "replay+planned",
                            "replayer", "+", "eager+plan"}) {
    EXPECT_EQ(find_arm(wrong), nullptr) << wrong;
  }
}

TEST(Ladder, OtherOrdersNeedTheArmsBetween) {
  EXPECT_THAT(shuffled_arms(pass_rungs().size(), 1), ElementsAre("replay+simplify"));
  EXPECT_THAT(shuffled_arms(1, 1), IsEmpty());
  EXPECT_THAT(shuffled_arms(0, 1), IsEmpty());
}

// A plan changes neither launches nor nodes, simplification does.
TEST(Ladder, RungsDifferInTheirOwnCounts) {
  const Workload& workload = *find_workload("mlp/digits");
  std::map<std::string, ExactMetrics> exact;
  for (const char* name : {"replay", "+plan", "replay+simplify", "graph"}) {
    ArmInstance instance(workload, *find_arm(name), 1);
    instance.call(0);
    exact[name] = instance.count(0);
  }
  EXPECT_EQ(exact["replay"].nodes, exact["+plan"].nodes);
  EXPECT_EQ(exact["replay+simplify"].nodes, exact["graph"].nodes);
  EXPECT_LT(exact["graph"].nodes, exact["replay"].nodes);
  EXPECT_EQ(exact["replay"].planned_peak_bytes, std::nullopt);
  EXPECT_EQ(exact["replay+simplify"].planned_peak_bytes, std::nullopt);
  EXPECT_GT(exact["+plan"].planned_peak_bytes, 0);
  EXPECT_LT(exact["+plan"].allocations, exact["replay"].allocations);
}

}  // namespace
}  // namespace diptych::workloads
