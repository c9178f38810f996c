#include "framework/core/allocator.h"

#include <thread>

#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych {
namespace {

TEST(Allocator, SizeClassesWasteAtMostAnEighthAndAHeader) {
  std::size_t previous = 0;
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 22); bytes += 1 + bytes / 7) {
    const allocator::Block block = allocator::allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % allocator::kAlignment, 0U);
    EXPECT_GE(block.size_class, previous);
    previous = block.size_class;
    std::fill_n(static_cast<std::byte*>(block.data), bytes, std::byte{1});  // sanitizers see an overrun
    const std::int64_t before = allocator::stats().bytes_in_use;
    allocator::release(block);
    const auto size = static_cast<std::size_t>(before - allocator::stats().bytes_in_use);
    EXPECT_GE(size, bytes);
    EXPECT_LE(size, bytes + bytes / 8 + allocator::kHeader);
  }
}

TEST(Allocator, TensorsOfPowersOfTwoFitTheirClass) {
  for (std::int64_t length = 512; length <= (1 << 20); length *= 2) {
    const std::int64_t before = allocator::stats().bytes_in_use;
    const Tensor tensor = Tensor::empty(DType::float32, {length});
    EXPECT_LE(allocator::stats().bytes_in_use - before, 4 * length + 512) << length;  // with the tensor's own body
  }
}

TEST(Allocator, ReusesWhatWasFreed) {
  const allocator::Block first = allocator::allocate(1000);
  allocator::release(first);
  const std::int64_t system = allocator::stats().system_allocations;
  const allocator::Block second = allocator::allocate(990);
  EXPECT_EQ(first.data, second.data);
  EXPECT_EQ(allocator::stats().system_allocations, system);
  allocator::release(second);
}

TEST(Allocator, CountsPeakAndUse) {
  const std::int64_t before = allocator::stats().bytes_in_use;
  allocator::reset_peak();
  { const Tensor big = Tensor::empty(DType::float32, {1000}); }
  EXPECT_EQ(allocator::stats().bytes_in_use, before);
  EXPECT_GE(allocator::stats().peak_bytes, before + 4000);
  EXPECT_LE(allocator::stats().peak_bytes, before + 6000);
}

TEST(Allocator, RefusesTheImpossible) {
  EXPECT_THROW(allocator::allocate(std::size_t{1} << 60), std::bad_alloc);
  EXPECT_THROW(allocator::allocate(SIZE_MAX), std::bad_alloc);
}

TEST(Allocator, TensorsMayDieOnAnotherThread) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 1000; ++i) {
    tensors.push_back(full({16}, i));
  }
  std::thread([moved = std::move(tensors)]() mutable {
    EXPECT_EQ(slice(moved[7], 0, 3, 4).item(), 7);
    moved.clear();
  }).join();
}

TEST(Allocator, ThreadsShareATensorSafely) {
  const Tensor shared = full({64}, 2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&shared] {
      for (int i = 0; i < 1000; ++i) {
        const Tensor copy = shared;
        EXPECT_EQ((copy + copy).numel(), 64);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(sum(shared).item(), 128);
}

}  // namespace
}  // namespace diptych
