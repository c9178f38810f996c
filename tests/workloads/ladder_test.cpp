// The table of arms: each rung adds one cause, everything is in the last one, and names mean what they say.

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "workloads/arms/arm.h"

namespace diptych::workloads {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::set<std::string> every_step() {
  std::set<std::string> steps(passes::kLoweringSteps.begin(), passes::kLoweringSteps.end());
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
  EXPECT_EQ(find_arm("+epilogue"), find_arm("graph"));
  EXPECT_EQ(find_arm("graph")->rung, "+epilogue");
  EXPECT_THAT(ladder_arms(), ElementsAre("eager", "replay", "+plan", "+simplify", "+fuse", "graph"));
}

TEST(Ladder, EndsWithTheThreadsThatAreAskedFor) {
  EXPECT_THAT(ladder_arms(2), ElementsAre("eager", "replay", "+plan", "+simplify", "+fuse", "graph", "+threads"));
  EXPECT_EQ(find_arm("+threads")->pipeline->disabled, find_arm("graph")->pipeline->disabled);
  EXPECT_EQ(threads_of_other_arms(std::vector<std::string>{"eager", "graph"}, 2), 2);
  EXPECT_EQ(threads_of_other_arms(std::vector<std::string>{"graph", "+threads"}, 2), 1);
}

TEST(Ladder, AnySetOfRungsHasAName) {
  const Arm* simplify = find_arm("replay+simplify");
  ASSERT_NE(simplify, nullptr);
  EXPECT_EQ(simplify, find_arm("replay+simplify"));
  EXPECT_EQ(simplify->pipeline->disabled,
            (std::set<std::string>{passes::kInPlace, passes::kMemoryPlan, "recompute", "check-labels", "split-sums",
                                   "multi-tensor", "fuse", "epilogue"}));
  EXPECT_THAT(simplify->groups, ElementsAre("+simplify"));
  EXPECT_FALSE(simplify->in_ladder);
  EXPECT_EQ(find_arm("replay+plan"), find_arm("+plan")) << "nothing is measured twice";
  EXPECT_EQ(find_arm("replay+plan+simplify"), find_arm("+simplify"));
  EXPECT_EQ(find_arm("replay+plan+simplify+fuse+epilogue"), find_arm("graph"));
  for (const char* wrong : {"replay+simplify+plan", "replay+plan+plan", "replay+", "replay+pla", "replay+planned",
                            "replayer", "+", "eager+plan"}) {
    EXPECT_EQ(find_arm(wrong), nullptr) << wrong;
  }
}

TEST(Ladder, OtherOrdersNeedTheArmsBetween) {
  EXPECT_THAT(shuffled_arms(3, 1),
              UnorderedElementsAre("replay+simplify", "replay+fuse", "replay+plan+fuse", "replay+simplify+fuse"));
  EXPECT_THAT(shuffled_arms(2, 1), ElementsAre("replay+simplify"));
  EXPECT_THAT(shuffled_arms(1, 1), IsEmpty());
  EXPECT_THAT(shuffled_arms(0, 1), IsEmpty());
}

// Of three rungs: all sets but those of the ladder itself, {}, {1}, {1, 2} and {1, 2, 3}.
TEST(Ladder, ThreeRungsJoinInAllOrders) {
  EXPECT_THAT(shuffled_groups(3, 1), ::testing::UnorderedElementsAre(
                                         std::vector<bool>{false, true, false}, std::vector<bool>{false, false, true},
                                         std::vector<bool>{true, false, true}, std::vector<bool>{false, true, true}));
  EXPECT_EQ(shuffled_groups(3, 1), shuffled_groups(3, 2));
}

TEST(Ladder, MoreRungsJoinInSixRandomOrders) {
  using Group = std::vector<bool>;
  for (const std::size_t rungs : {4U, 5U, 7U}) {
    std::set<std::vector<Group>> by_seed;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const std::vector<Group> groups = shuffled_groups(rungs, seed);
      EXPECT_EQ(groups, shuffled_groups(rungs, seed)) << "the seed decides";
      by_seed.insert(groups);
      EXPECT_THAT(groups, ::testing::Not(IsEmpty()));
      EXPECT_LE(groups.size(), 6 * (rungs - 1));
      std::set<Group> measured(groups.begin(), groups.end());
      EXPECT_EQ(measured.size(), groups.size()) << "nothing is measured twice";
      for (const Group& group : groups) {
        EXPECT_EQ(group.size(), rungs);
        EXPECT_FALSE(std::is_sorted(group.rbegin(), group.rend())) << "a step of the ladder is measured already";
      }
      Group step(rungs);  // the ladder's own
      measured.insert(step);
      for (std::size_t i = 0; i < rungs; ++i) {
        step[i] = true;
        measured.insert(step);
      }
      // Each set is one rung away from another that is measured: the rung has a saving there.
      for (const Group& group : groups) {
        bool has_neighbour = false;
        for (std::size_t i = 0; i < rungs; ++i) {
          Group without = group;
          without[i] = false;
          has_neighbour = has_neighbour || (group[i] && measured.contains(without));
        }
        EXPECT_TRUE(has_neighbour);
      }
    }
    EXPECT_GT(by_seed.size(), 15U) << rungs;
  }
}

// A plan changes neither launches nor nodes, simplification does.
TEST(Ladder, RungsDifferInTheirOwnCounts) {
  const Workload& workload = *find_workload("mlp/digits");
  std::map<std::string, ExactMetrics> exact;
  for (const char* name : {"replay", "+plan", "+simplify", "replay+simplify", "graph"}) {
    ArmInstance instance(workload, *find_arm(name), 1);
    instance.call(0);
    exact[name] = instance.count(0);
  }
  EXPECT_EQ(exact["replay"].nodes, exact["+plan"].nodes);
  EXPECT_EQ(exact["replay+simplify"].nodes, exact["+simplify"].nodes);
  EXPECT_LT(exact["+simplify"].nodes, exact["replay"].nodes);
  EXPECT_LT(exact["graph"].dispatches, exact["+simplify"].dispatches);
  EXPECT_EQ(exact["replay"].planned_peak_bytes, std::nullopt);
  EXPECT_EQ(exact["replay+simplify"].planned_peak_bytes, std::nullopt);
  EXPECT_GT(exact["+plan"].planned_peak_bytes, 0);
  EXPECT_LT(exact["+plan"].allocations, exact["replay"].allocations);
}

}  // namespace
}  // namespace diptych::workloads
