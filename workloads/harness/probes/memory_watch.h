#pragma once

#include <cstdint>
#include <functional>
#include <vector>

/// What one call allocates and frees, op by op, from the trace points of ops and of the allocator. Watching takes some
/// tens of nanoseconds an event. Only the calling thread is seen, and nothing else may be traced at the same time.
namespace diptych::workloads {

/// An op that began in the call.
struct OpMark {
  const char* name;
  std::uint64_t source_op;  ///< as in traces; 0 in eager
  double from, to;          ///< seconds since the call began
  int depth;                ///< 0: within no other op
};

/// A block of the allocator, in the bytes of its size class. One that the call found and freed began at 0.
struct WatchedBlock {
  static constexpr std::size_t kNoOp = SIZE_MAX;
  std::int64_t bytes;
  double from, to;
  std::size_t op;         ///< of MemoryOfCall::ops: what ran when it was allocated, or kNoOp
  bool is_older = false;  ///< than the call
};

struct MemoryOfCall {
  std::vector<OpMark> ops;           ///< in the order in which they began
  std::vector<WatchedBlock> blocks;  ///< in the order in which they were allocated
  double seconds = 0;
  bool is_whole = true;  ///< false: there were more events than are kept
};

MemoryOfCall watch_memory(const std::function<void()>& call);

}  // namespace diptych::workloads
