#include "profiler/trace/split_steps.h"

#include <gtest/gtest.h>

namespace diptych::profiler {
namespace {

using trace::Category;

///  main    |- step 0..100 ------|   |- step 200..300 -|  |- step 400..500 -|
///            |- add 10..60 -|          |- add 210..220 -|
///  worker       |- add 20..30 -|                                            |- add 600..610 -|
Trace turns() {
  Trace trace;
  trace.duration_ns = 1'000;
  trace.threads = {{1, "main", 0}, {2, "worker", 0}};
  trace.labels = {{"step", Category::user}, {"add", Category::op}, {"bytes", Category::memory}};
  trace.zones = {{0, 0, 0, 100, 0, Trace::no_parent, 0},   {0, 1, 10, 60, 0, 0, 1},
                 {0, 0, 200, 300, 0, Trace::no_parent, 0}, {0, 1, 210, 220, 7, 2, 1},
                 {0, 0, 400, 500, 0, Trace::no_parent, 0}, {1, 1, 20, 30, 0, Trace::no_parent, 0},
                 {1, 1, 600, 610, 0, Trace::no_parent, 0}};
  trace.counters = {{0, 2, 50, 1}, {0, 2, 250, 2}, {0, 2, 700, 3}};
  return trace;
}

TEST(SplitSteps, GivesEachProgramItsStepsOfAllThreads) {
  const std::vector<std::size_t> owner = {0, 1, 0};
  const std::vector<Trace> split = split_steps(turns(), owner, 2);
  ASSERT_EQ(split.size(), 2U);
  ASSERT_EQ(split[0].zones.size(), 4U) << "two steps, the op in the first, the worker's op in it";
  EXPECT_EQ(split[0].zones[1].parent, 0);
  EXPECT_EQ(split[0].zones[2].begin_ns, 400) << "times are those of the whole trace";
  EXPECT_EQ(split[0].zones[3].thread, 1U);
  ASSERT_EQ(split[1].zones.size(), 2U);
  EXPECT_EQ(split[1].zones[1].source_op, 7U);
  EXPECT_EQ(split[1].zones[1].parent, 0) << "parents are numbered anew";
  ASSERT_EQ(split[0].counters.size(), 1U);
  EXPECT_EQ(split[0].counters[0].value, 1);
  ASSERT_EQ(split[1].counters.size(), 1U);
  EXPECT_EQ(steps_of(split[0]), (std::vector<std::size_t>{0, 2}));
}

TEST(SplitSteps, LeavesOutWhatLiesInNoStep) {
  const std::vector<std::size_t> owner = {0, 0};  // one less than there are steps
  const std::vector<Trace> split = split_steps(turns(), owner, 1);
  EXPECT_EQ(split[0].zones.size(), 5U);
  EXPECT_TRUE(split_steps(Trace{}, owner, 1)[0].zones.empty());
}

}  // namespace
}  // namespace diptych::profiler
