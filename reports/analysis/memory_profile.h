#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// What a call of each arm holds in memory, over its time. Pure functions of plain values. Bytes count from what was
/// held when the call began: parameters, inputs and the optimizer's state are no part of them.
namespace diptych::reports {

/// Bytes that are held together: a block of the allocator, or a temporary in a graph's arena.
struct MemoryBlock {
  std::int64_t bytes = 0;
  double from = 0, to = 0;  ///< seconds since the call began; to its end, if they outlive it
  std::string op;           ///< that was running; empty: none. Untrusted, like all names here, until printable()
  std::uint64_t source_op = 0;
  std::string scope, shape;                 ///< of the source op, "net.0", "f32[64,10]"; empty: not known
  std::optional<std::int64_t> offset = {};  ///< in the arena
  bool is_older = false;                    ///< held when the call began, and freed at `to`
};

struct MemoryOfArm {
  std::string name;
  double seconds = 0;  ///< of a call
  std::vector<MemoryBlock> blocks;
  std::optional<std::int64_t> arena_bytes = {};  ///< of a graph, kept between calls; nothing: it has no arena
  std::int64_t lower_bound_bytes = 0;            ///< of the arena: the most temporaries alive at one time
  std::int64_t packed_bytes = 0;                 ///< of matrices packed once, kept between calls
};

struct MemoryPoint {
  double seconds;
  std::int64_t bytes;  ///< from here on; below 0: more has been freed than was allocated
};

/// By ascending seconds, each once, from 0 on.
std::vector<MemoryPoint> timeline(const MemoryOfArm& arm);

/// Blocks of the same op and shape that are alive at the peak.
struct MemoryHolder {
  std::string op, shape;
  std::vector<std::string> scopes;  ///< each once, in the order of allocation
  std::size_t modules = 0;          ///< how many scopes there are
  std::size_t blocks = 0;
  std::int64_t bytes = 0;  ///< of all; negative: of what the call had freed by then
};

struct MemoryPeak {
  MemoryPoint at{0, 0};               ///< where it is reached first
  std::vector<MemoryHolder> holders;  ///< the largest first; their bytes add up to the peak's
};
MemoryPeak peak(const MemoryOfArm& arm);

/// How much of an arm's memory is kept.
struct MemoryLimits {
  std::size_t points = 600;  ///< of the timeline, about
  std::size_t holders = 20;  ///< at the peak
  std::size_t blocks = 400;  ///< of the arena
  std::size_t scopes = 2;    ///< of a holder: the first ones and the last
};
/// All of it.
inline constexpr MemoryLimits kNoMemoryLimits{std::size_t{1} << 40U, std::size_t{1} << 40U, std::size_t{1} << 40U,
                                              std::size_t{1} << 40U};

/// What views show of an arm's memory.
struct MemoryRecord {
  std::string name;
  double seconds = 0;  ///< of a call
  MemoryPoint peak{0, 0};
  std::optional<std::int64_t> arena_bytes = {};  ///< as in MemoryOfArm, and so are the next two
  std::int64_t lower_bound_bytes = 0;
  std::int64_t packed_bytes = 0;
  std::vector<MemoryPoint> timeline = {};
  std::vector<MemoryHolder> holders = {};  ///< the largest first
  std::vector<MemoryBlock> arena = {};     ///< those with an offset
  std::size_t points_left_out = 0, holders_left_out = 0, blocks_left_out = 0;
};
/// Of the timeline, the highest and the lowest point of every stretch of time stay as they are, and so does the peak;
/// of the arena, the blocks that take most bytes for most of the time.
MemoryRecord memory_record(const MemoryOfArm& arm, const MemoryLimits& limits = {});
std::vector<MemoryRecord> memory_records(std::span<const MemoryOfArm> arms, const MemoryLimits& limits = {});

}  // namespace diptych::reports
