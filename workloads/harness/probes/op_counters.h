#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "profiler/counters/counters.h"

/// What each op of a call counts: instructions, cache misses, page faults. Counters are read at the trace points of
/// ops, which takes about a microsecond each: in calls of their own, that nobody times.
namespace diptych::workloads {

struct OpCounts {
  struct Op {
    std::string name;
    std::uint64_t source_op = 0;  ///< the trace's; 0 in eager
    std::vector<double> counts;   ///< by event, without ops inside it, and without reading the counters
  };
  std::vector<std::string> events;          ///< that were counted
  std::vector<std::string> missing;         ///< that were asked for, and
  std::string reason;                       ///< why the first of them wasn't counted
  std::vector<std::vector<Op>> calls = {};  ///< the ops of each call, in order; empty: a build without trace points
};

/// Of the ops on this thread. Nothing else may be traced at the same time. `system`: for tests.
OpCounts count_ops(const std::function<void(int call)>& call, int calls, const std::vector<std::string>& events,
                   const profiler::SystemCalls& system = profiler::SystemCalls::real());

}  // namespace diptych::workloads
