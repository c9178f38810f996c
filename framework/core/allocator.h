#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace diptych {

/// Counters of the calling thread.
struct AllocatorStats {
  std::int64_t allocations = 0;         ///< blocks handed out
  std::int64_t system_allocations = 0;  ///< of these, the ones that had to ask the system
  std::int64_t bytes_in_use = 0;  ///< in size classes; negative where another thread allocated what this one freed
  std::int64_t peak_bytes = 0;    ///< the highest bytes_in_use since the last reset_peak()
  std::int64_t cached_bytes = 0;  ///< kept for reuse
};

/// A caching allocator: size classes with four steps per doubling, a free list each, one set per thread, no locks.
/// A block may be freed by another thread than the one that allocated it: it then joins that thread's cache. Blocks are
/// aligned to 64 bytes. What a thread caches is capped and given back when the thread ends.
namespace allocator {

inline constexpr std::size_t kAlignment = 64;

// Class c < 16: (c + 1) * 64 bytes, up to 1 KiB. Above: four steps per doubling, so at most 25 % is wasted.
inline constexpr std::uint32_t kSmallClasses = 16;

constexpr std::uint32_t size_class_of(std::size_t bytes) {
  if (bytes <= 1024) {
    return bytes == 0 ? 0 : static_cast<std::uint32_t>((bytes - 1) / 64);
  }
  const int exponent = std::bit_width(bytes - 1) - 1;  // 2^exponent <= bytes - 1 < 2^(exponent + 1), exponent >= 10
  const auto quarter = static_cast<std::uint32_t>(((bytes - 1) >> (exponent - 2)) & 3);
  return kSmallClasses + 4 * static_cast<std::uint32_t>(exponent - 10) + quarter;
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
/// Gives the calling thread's cache back to the system.
void trim() noexcept;

}  // namespace allocator
}  // namespace diptych
