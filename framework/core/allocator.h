#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace diptych {

/// Counters of the calling thread.
struct AllocatorStats {
  std::int64_t allocations = 0;         ///< blocks handed out
  std::int64_t system_allocations = 0;  ///< those that had to ask the system
  std::int64_t bytes_in_use = 0;        ///< in size classes; negative if this thread freed what another one allocated
  std::int64_t peak_bytes = 0;          ///< the highest bytes_in_use since the last reset_peak()
  std::int64_t cached_bytes = 0;        ///< kept for reuse
};

/// A caching allocator without locks: size classes in 32 steps per doubling, each with a free list, and one set of them
/// per thread. A block freed by another thread than the one that allocated it joins the cache of the freeing thread.
/// Blocks are aligned to 64 bytes. A thread's cache is capped, and is returned to the system when the thread ends.
namespace allocator {

inline constexpr std::size_t kAlignment = 64;

// Class c < 16: (c + 1) * 64 bytes, up to 1 KiB. Above: a header and 32 steps per doubling, so at most 3 % is wasted.
// The header is that of a tensor's elements: without it, lengths that are powers of two, the usual ones, would just
// miss their class.
inline constexpr std::uint32_t kSmallClasses = 16;
inline constexpr int kStepBits = 5;
inline constexpr std::uint32_t kSteps = 1U << kStepBits;
inline constexpr std::size_t kHeader = 128;

constexpr std::uint32_t size_class_of(std::size_t bytes) {
  if (bytes <= 1024) {
    return bytes == 0 ? 0 : static_cast<std::uint32_t>((bytes - 1) / 64);
  }
  const std::size_t last = bytes - kHeader > 1024 ? bytes - kHeader - 1 : 1024;
  const int exponent = std::bit_width(last) - 1;  // 2^exponent <= last < 2^(exponent + 1), exponent >= 10
  const auto step = static_cast<std::uint32_t>((last >> (exponent - kStepBits)) % kSteps);
  return kSmallClasses + kSteps * static_cast<std::uint32_t>(exponent - 10) + step;
}

struct Block {
  void* data;
  std::uint32_t size_class;
};

/// Throws std::bad_alloc.
Block allocate(std::size_t bytes);
void release(Block block) noexcept;

AllocatorStats stats() noexcept;
void reset_peak() noexcept;
/// Returns the calling thread's cache to the system.
void trim() noexcept;

}  // namespace allocator
}  // namespace diptych
