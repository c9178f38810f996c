// What ops count, with a kernel that is played: its counts move only where the test says so.

#include "workloads/harness/probes/op_counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/trace_points.h"
#include "tests/profiler/fake_kernel.h"

namespace diptych::workloads {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr trace::Label kMatmul{"matmul", trace::Category::op};
constexpr trace::Label kCopy{"copy", trace::Category::op};
constexpr trace::Label kPass{"backward", trace::Category::autograd};

class OpCounters : public ::testing::Test {
 protected:
  void work(std::uint64_t instructions, std::uint64_t faults = 0) {
    kernel.counted[PERF_COUNT_HW_INSTRUCTIONS] += instructions;
    kernel.counted[PERF_COUNT_SW_PAGE_FAULTS] += faults;
  }
  profiler::FakeKernel kernel{.counted = {{PERF_COUNT_HW_INSTRUCTIONS, 0}, {PERF_COUNT_SW_PAGE_FAULTS, 0}}};
};

#ifdef DIPTYCH_TRACE_POINTS

TEST_F(OpCounters, EachOpHasItsOwn) {
  const auto call = [&](int step) {
    work(5000);  // outside of ops
    {
      const trace::Zone op(&kMatmul, 7);
      work(100 + 10 * static_cast<std::uint64_t>(step), 3);
      {
        const trace::Zone inner(&kCopy);
        work(20, 1);
      }
      work(1);
    }
    const trace::Zone pass(&kPass);  // no op
    work(9000);
    const trace::Zone op(&kCopy);
    work(4);
  };
  const OpCounts counts = count_ops(call, 2, {"instructions", "page-faults"}, kernel.calls());
  EXPECT_THAT(counts.events, ElementsAre("instructions", "page-faults"));
  EXPECT_THAT(counts.missing, IsEmpty());
  ASSERT_THAT(counts.calls, SizeIs(2));
  for (int step = 0; step < 2; ++step) {
    const auto& ops = counts.calls[static_cast<std::size_t>(step)];
    ASSERT_THAT(ops, SizeIs(3));
    EXPECT_EQ(ops[0].name, "matmul");
    EXPECT_EQ(ops[0].source_op, 7U);
    EXPECT_THAT(ops[0].counts, ElementsAre(101 + 10 * step, 3));
    EXPECT_EQ(ops[1].name, "copy");
    EXPECT_THAT(ops[1].counts, ElementsAre(20, 1));
    EXPECT_THAT(ops[2].counts, ElementsAre(4, 0));
  }
}

TEST_F(OpCounters, OpsWithinOpsWithoutEndAreLeftOut) {
  const std::function<void(int)> nest = [&](int depth) {
    const trace::Zone op(&kCopy);
    work(1);
    if (depth < 40) {
      nest(depth + 1);
    }
  };
  const OpCounts counts = count_ops(nest, 1, {"instructions"}, kernel.calls());
  ASSERT_THAT(counts.calls.front(), SizeIs(16));
  EXPECT_THAT(counts.calls.front().front().counts, ElementsAre(1));
  EXPECT_THAT(counts.calls.front().back().counts, ElementsAre(26)) << "with those that are left out";
}

#endif

TEST_F(OpCounters, WhatTheMachineLacksIsNamed) {
  kernel.pmu = false;
  const OpCounts some = count_ops([](int) {}, 1, {"instructions", "page-faults", "no-such-event"}, kernel.calls());
  EXPECT_THAT(some.events, ElementsAre("page-faults"));
  EXPECT_THAT(some.missing, ElementsAre("instructions", "no-such-event"));
  EXPECT_THAT(some.reason, HasSubstr("no PMU"));
  kernel.software_error = EACCES;
  const OpCounts none = count_ops([](int) { FAIL() << "nothing to count"; }, 1, {"page-faults"}, kernel.calls());
  EXPECT_THAT(none.events, IsEmpty());
  EXPECT_THAT(none.missing, ElementsAre("page-faults"));
}

}  // namespace
}  // namespace diptych::workloads
