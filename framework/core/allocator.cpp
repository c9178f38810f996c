#include "framework/core/allocator.h"

#include <algorithm>
#include <cstdlib>

#include "framework/core/out_of_memory.h"
#include "framework/core/trace_points.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace diptych::allocator {
namespace {

constexpr std::uint32_t kClasses = kSmallClasses + kSteps * 40;
constexpr std::int64_t kCacheLimit = std::int64_t{1} << 30;

constexpr std::size_t bytes_of(std::uint32_t size_class) {
  if (size_class < kSmallClasses) {
    return (size_class + 1) * std::size_t{64};
  }
  const std::uint32_t exponent = (size_class - kSmallClasses) / kSteps + 10;
  const std::size_t step = (size_class - kSmallClasses) % kSteps;
  return kHeader + (std::size_t{1} << exponent) + ((step + 1) << (exponent - kStepBits));
}

static_assert(size_class_of(1) == 0 && size_class_of(64) == 0 && size_class_of(65) == 1 && size_class_of(1024) == 15);
static_assert(size_class_of(1025) == 16 && bytes_of(16) == 1184 && bytes_of(size_class_of(1185)) == 1216);
static_assert(bytes_of(size_class_of((1U << 20) + kHeader)) == (1U << 20) + kHeader);
static_assert(bytes_of(size_class_of((1U << 20) + kHeader + 1)) == (1U << 20) + (1U << 15) + kHeader);

struct FreeBlock {
  FreeBlock* next;
};

struct ThreadCache {
  FreeBlock* free[kClasses];
  AllocatorStats stats;
  bool closed;  // the thread is ending: nothing is cached any longer
};

constinit thread_local ThreadCache cache{};

void trim_cache() noexcept {
  for (std::uint32_t c = 0; c < kClasses; ++c) {
    while (FreeBlock* block = cache.free[c]) {
      ASAN_UNPOISON_MEMORY_REGION(block, bytes_of(c));
      cache.free[c] = block->next;
      std::free(block);
    }
  }
  cache.stats.cached_bytes = 0;
}

struct CacheCloser {
  ~CacheCloser() {
    trim_cache();
    cache.closed = true;
  }
};

constexpr trace::Label kBytesInUse{"engine bytes in use", trace::Category::memory};

[[gnu::noinline]] void* allocate_from_system(std::uint32_t size_class, std::size_t bytes) {
  thread_local CacheCloser closer;  // here, so that the fast path has no initialisation guard
  (void)closer;
  if (size_class >= kClasses) {
    throw OutOfMemory(bytes);
  }
  // The C standard requires a multiple of the alignment.
  const std::size_t size = (bytes_of(size_class) + kAlignment - 1) / kAlignment * kAlignment;
  void* data = std::aligned_alloc(kAlignment, size);
  if (data == nullptr) {
    trim_cache();
    data = std::aligned_alloc(kAlignment, size);
  }
  if (data == nullptr) {
    throw OutOfMemory(bytes);
  }
  ++cache.stats.system_allocations;
  return data;
}

}  // namespace

Block allocate(std::size_t bytes) {
  const std::uint32_t size_class = size_class_of(bytes);
  ThreadCache& mine = cache;
  void* data;
  const auto size = static_cast<std::int64_t>(bytes_of(size_class));
  if (size_class < kClasses && mine.free[size_class] != nullptr) [[likely]] {
    FreeBlock* block = mine.free[size_class];
    ASAN_UNPOISON_MEMORY_REGION(block, bytes_of(size_class));
    mine.free[size_class] = block->next;
    mine.stats.cached_bytes -= size;
    data = block;
  } else {
    data = allocate_from_system(size_class, bytes);
  }
  ++mine.stats.allocations;
  mine.stats.bytes_in_use += size;
  mine.stats.peak_bytes = std::max(mine.stats.peak_bytes, mine.stats.bytes_in_use);
  trace::counter(&kBytesInUse, mine.stats.bytes_in_use, data);
  return {data, size_class};
}

void release(Block block) noexcept {
  ThreadCache& mine = cache;
  const auto size = static_cast<std::int64_t>(bytes_of(block.size_class));
  mine.stats.bytes_in_use -= size;
  trace::counter(&kBytesInUse, mine.stats.bytes_in_use, block.data);
  if (mine.closed || mine.stats.cached_bytes + size > kCacheLimit) [[unlikely]] {
    std::free(block.data);
    return;
  }
  auto* free_block = static_cast<FreeBlock*>(block.data);
  free_block->next = mine.free[block.size_class];
  mine.free[block.size_class] = free_block;
  mine.stats.cached_bytes += size;
  ASAN_POISON_MEMORY_REGION(block.data, bytes_of(block.size_class));
}

AllocatorStats stats() noexcept { return cache.stats; }
void reset_peak() noexcept { cache.stats.peak_bytes = cache.stats.bytes_in_use; }
void trim() noexcept { trim_cache(); }

}  // namespace diptych::allocator
