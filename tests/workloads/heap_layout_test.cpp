// Where the engine's next blocks lie after a change of layout, seen by their addresses.

#include "workloads/harness/cell/heap_layout.h"

#include <cstdint>
#include <cstdlib>
#include <malloc.h>
#include <set>

#include <gtest/gtest.h>

#include "framework/core/allocator.h"

namespace diptych::workloads {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kForeignHeap = true;
#else
constexpr bool kForeignHeap = false;
#endif

/// Page offsets of a block of the engine and of one of malloc, after each of `changes` layouts.
struct Offsets {
  std::set<std::uintptr_t> engine, system;
};
Offsets offsets_after(int changes, std::uint64_t seed) {
  HeapLayout layout(seed);
  Offsets result;
  for (int i = 0; i < changes; ++i) {
    layout.change();
    const allocator::Block block = allocator::allocate(200);
    void* const other = std::malloc(200);
    result.engine.insert(reinterpret_cast<std::uintptr_t>(block.data) % 4096);
    result.system.insert(reinterpret_cast<std::uintptr_t>(other) % 4096);
    std::free(other);
    allocator::release(block);
  }
  return result;
}

// Without a change both come from the same place each time.
TEST(HeapLayout, BlocksOfTheEngineAndOfTheSystemLieElsewhereAfterAChange) {
  if (kForeignHeap) {
    GTEST_SKIP() << "the sanitizer's heap has a layout of its own; runs in builds without";
  }
  const Offsets offsets = offsets_after(100, 1);
  EXPECT_GT(offsets.engine.size(), 20U);  // of 64 that there are
  EXPECT_GT(offsets.system.size(), 20U);  // of 256
}

TEST(HeapLayout, TheEngineKeepsNothingThatWasFree) {
  allocator::release(allocator::allocate(1 << 20));
  EXPECT_GT(allocator::stats().cached_bytes, 0);
  HeapLayout layout(1);
  layout.change();
  EXPECT_EQ(allocator::stats().cached_bytes, 0);
}

TEST(HeapLayout, ChangesDoNotAddUp) {
  if (kForeignHeap) {
    GTEST_SKIP() << "the sanitizer's heap isn't counted by malloc; runs in builds without";
  }
  HeapLayout layout(1);
  layout.change();
  const std::size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 1000; ++i) {
    layout.change();
  }
  EXPECT_LT(mallinfo2().uordblks, before + 1'000'000);  // a change takes 0.3 MB or so
}

}  // namespace
}  // namespace diptych::workloads
