#include "framework/runtime/memory_plan.h"

#include <random>

#include <gtest/gtest.h>

#include "framework/core/allocator.h"

namespace diptych::runtime {
namespace {

std::size_t rounded(std::size_t bytes) {
  return (bytes + allocator::kAlignment - 1) / allocator::kAlignment * allocator::kAlignment;
}

/// Checks a plan against the definitions, by brute force.
void expect_valid(const std::vector<Lifetime>& lifetimes, const MemoryPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), lifetimes.size());
  std::size_t end = 0;
  std::uint32_t last_instruction = 0;
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % allocator::kAlignment, 0U);
    end = std::max(end, plan.offsets[i] + lifetimes[i].bytes);
    last_instruction = std::max(last_instruction, lifetimes[i].last);
    for (std::size_t j = 0; j < i; ++j) {
      const bool meet = lifetimes[i].first <= lifetimes[j].last && lifetimes[j].first <= lifetimes[i].last;
      const bool overlap = plan.offsets[i] < plan.offsets[j] + lifetimes[j].bytes &&
                           plan.offsets[j] < plan.offsets[i] + lifetimes[i].bytes;
      EXPECT_FALSE(meet && overlap) << "buffers " << i << " and " << j;
    }
  }
  EXPECT_LE(end, plan.peak);
  std::size_t most = 0;
  for (std::uint32_t t = 0; t <= last_instruction; ++t) {
    std::size_t live = 0;
    for (const Lifetime& lifetime : lifetimes) {
      live += lifetime.first <= t && t <= lifetime.last ? rounded(lifetime.bytes) : 0;
    }
    most = std::max(most, live);
  }
  EXPECT_EQ(plan.lower_bound, most);
  EXPECT_GE(plan.peak, plan.lower_bound);
  std::size_t total = 0;
  for (const Lifetime& lifetime : lifetimes) {
    total += rounded(lifetime.bytes);
  }
  EXPECT_LE(plan.peak, total) << "never worse than no sharing";
}

TEST(MemoryPlan, RandomLifetimesNeverOverlap) {
  std::mt19937 random(7);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (int round = 0; round < 3000; ++round) {
    std::vector<Lifetime> lifetimes;
    const std::uint32_t count = below(24);
    const std::uint32_t instructions = 1 + below(30);
    const std::uint32_t longest = 1 + below(instructions);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t first = below(instructions);
      const std::uint32_t last = std::min(instructions - 1, first + below(longest));
      const std::size_t sizes[] = {0, 1, 63, 64, 65, 128, 1000, below(5000)};
      lifetimes.push_back({sizes[below(8)], first, last});
    }
    expect_valid(lifetimes, plan_memory(lifetimes));
    if (HasFailure()) {
      FAIL() << "round " << round;
    }
  }
}

TEST(MemoryPlan, OfNothingIsEmpty) {
  const MemoryPlan plan = plan_memory({});
  EXPECT_EQ(plan.peak, 0U);
  EXPECT_EQ(plan.lower_bound, 0U);
  EXPECT_TRUE(plan.offsets.empty());
}

TEST(MemoryPlan, AChainNeedsTwoBuffers) {
  // Each is read by the instruction that writes the next.
  std::vector<Lifetime> lifetimes;
  for (std::uint32_t i = 0; i < 50; ++i) {
    lifetimes.push_back({1024, i, i + 1});
  }
  const MemoryPlan plan = plan_memory(lifetimes);
  expect_valid(lifetimes, plan);
  EXPECT_EQ(plan.peak, 2048U);
}

TEST(MemoryPlan, LifetimesThatTouchInOneInstructionMeet) {
  const std::vector<Lifetime> lifetimes{{64, 0, 1}, {64, 1, 2}, {64, 2, 3}};
  const MemoryPlan plan = plan_memory(lifetimes);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
  EXPECT_EQ(plan.lower_bound, 128U);
}

TEST(MemoryPlan, BuffersThatAllLiveTogetherLieSideBySide) {
  const std::vector<Lifetime> lifetimes{{100, 0, 9}, {200, 0, 9}, {300, 0, 9}};
  const MemoryPlan plan = plan_memory(lifetimes);
  expect_valid(lifetimes, plan);
  EXPECT_EQ(plan.peak, 128U + 256U + 320U);
}

TEST(MemoryPlan, IsTheSameEveryTime) {
  std::vector<Lifetime> lifetimes;
  for (std::uint32_t i = 0; i < 20; ++i) {
    lifetimes.push_back({64 * ((i * 7) % 5 + 1), i, i + (i * 3) % 7});
  }
  EXPECT_EQ(plan_memory(lifetimes).offsets, plan_memory(lifetimes).offsets);
}

}  // namespace
}  // namespace diptych::runtime
