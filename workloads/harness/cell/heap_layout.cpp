#include "workloads/harness/cell/heap_layout.h"

#include <cstdlib>
#include <utility>

#include "framework/core/allocator.h"

namespace diptych::workloads {
namespace {

constexpr std::size_t kGrain = 16;  ///< malloc's alignment
/// malloc caches up to 7 free blocks of each size up to 1 KiB, and returns the last one first: more are needed to get
/// past them.
constexpr std::size_t kSmallSizes = 64;
constexpr std::uint64_t kMostOfSize = 12;
constexpr std::uint64_t kGapGrains = 4096;  ///< of the block that moves the rest of the heap: 64 KiB

}  // namespace

void HeapLayout::change() {
  allocator::trim();
  std::vector<void*> held;
  std::vector<void*> dropped;
  held.reserve(kSmallSizes * kMostOfSize + 1);
  dropped.reserve(kSmallSizes * kMostOfSize);
  for (std::size_t size = kGrain; size <= kGrain * kSmallSizes; size += kGrain) {
    for (std::uint64_t left = random_.below(kMostOfSize + 1); left > 0; --left) {
      (random_.below(2) == 0 ? held : dropped).push_back(std::malloc(size));
    }
  }
  held.push_back(std::malloc(kGrain * (1 + random_.below(kGapGrains))));
  release(dropped);
  release(blocks_);  // last, so that the new blocks don't just take the places of the old ones
  blocks_ = std::move(held);
}

void HeapLayout::release(std::vector<void*>& blocks) noexcept {
  for (void* const block : blocks) {
    std::free(block);
  }
  blocks.clear();
}

}  // namespace diptych::workloads
