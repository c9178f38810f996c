#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Static memory planning: offsets in one arena for buffers with known lifetimes.
///
///   buffer classes            who owns the bytes
///   argument, captured        the caller's tensors; never written
///   state                     the Variable; written in place when every read of the old value comes first
///   constant                  the executable, filled at compile time
///   output                    fresh storage, one allocation per call
///   temporary                 the arena, planned here; temporaries with disjoint lifetimes may share bytes
///
/// With planning off ("memory-plan" disabled), temporaries are allocated before the instruction that writes them and
/// freed after the last that reads them, as in eager.
namespace diptych::runtime {

struct Lifetime {
  std::size_t bytes;
  std::uint32_t first;  ///< the instruction that writes it
  std::uint32_t last;   ///< the last instruction that reads it (inclusive)
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;
  std::size_t peak = 0;         ///< bytes of the arena
  std::size_t lower_bound = 0;  ///< the most bytes alive at any time: no plan can need less
  const char* heuristic = "";   ///< of several, the one with the smallest peak
};

/// MemoryPlan::lower_bound, without a plan.
std::size_t most_live_bytes(std::span<const Lifetime> lifetimes);

MemoryPlan plan_memory(std::span<const Lifetime> lifetimes);

}  // namespace diptych::runtime
