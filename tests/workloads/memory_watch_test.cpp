// What a call allocates and frees, on programs whose memory is known.

#include "workloads/harness/probes/memory_watch.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych::workloads {
namespace {

constexpr std::int64_t kElements = std::int64_t{1} << 16;
constexpr std::int64_t kBytes = 4 * kElements;

std::int64_t large_blocks(const MemoryOfCall& call) {
  return std::count_if(call.blocks.begin(), call.blocks.end(),
                       [](const WatchedBlock& block) { return block.bytes >= kBytes && !block.is_older; });
}

TEST(MemoryWatch, BlocksHaveTheirOpAndTheirTime) {
#ifndef DIPTYCH_TRACE_POINTS
  GTEST_SKIP() << "without trace points nothing is seen";
#endif
  const Tensor x = full({kElements}, 0.5);
  Tensor kept;
  const MemoryOfCall call = watch_memory([&] {
    const Tensor y = exp(x);
    kept = tanh(y);
  });
  ASSERT_EQ(call.ops.size(), 2);
  EXPECT_STREQ(call.ops[0].name, "exp");
  EXPECT_STREQ(call.ops[1].name, "tanh");
  EXPECT_EQ(large_blocks(call), 2);
  for (const WatchedBlock& block : call.blocks) {
    if (block.bytes < kBytes) {
      continue;
    }
    ASSERT_LT(block.op, 2U);
    EXPECT_GE(block.from, call.ops[block.op].from);
    if (block.op == 1) {
      EXPECT_EQ(block.to, call.seconds) << "kept";
    } else {
      EXPECT_LT(block.to, call.seconds) << "freed within the call";
      EXPECT_GT(block.to, call.ops[1].from) << "but tanh reads it";
    }
  }
  EXPECT_TRUE(call.is_whole);
}

TEST(MemoryWatch, WhatTheCallFoundAndFrees) {
#ifndef DIPTYCH_TRACE_POINTS
  GTEST_SKIP() << "without trace points nothing is seen";
#endif
  Tensor old = full({kElements}, 0.5);
  const MemoryOfCall call = watch_memory([&] { old = Tensor(); });
  EXPECT_EQ(std::count_if(call.blocks.begin(), call.blocks.end(),
                          [](const WatchedBlock& block) { return block.is_older && block.bytes >= kBytes; }),
            1);
  EXPECT_EQ(large_blocks(call), 0);
}

}  // namespace
}  // namespace diptych::workloads
