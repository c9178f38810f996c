#pragma once

#include <cstdint>
#include <limits>

/// This program's operator new and aligned_alloc, which the engine's allocator asks, can be made to fail.
namespace diptych::testing {

/// While it lives, the nth allocation from now on is refused, on whatever thread.
class Refusal {
 public:
  explicit Refusal(std::int64_t nth);
  ~Refusal();
  Refusal(const Refusal&) = delete;
  Refusal& operator=(const Refusal&) = delete;

  /// Allocations since; `was_made` if they were enough.
  std::int64_t allocations() const;
  bool was_made() const { return allocations() >= nth_; }

 private:
  std::int64_t nth_;
};

inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// Blocks from operator new that are in use.
std::int64_t live_blocks();

}  // namespace diptych::testing
