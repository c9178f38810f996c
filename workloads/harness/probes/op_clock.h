#pragma once

#include <functional>
#include <vector>

#include "workloads/harness/probes/op_list.h"

/// The time that a call spends in its backward passes, from trace points that only read the clock. A tracer would
/// record each op, which takes longer than many ops do. Nothing else may be traced at the same time.
namespace diptych::workloads {

/// The backward passes of a call; nested passes count as part of the outer ones.
struct PassTimes {
  double seconds = 0;          ///< in all passes, including their ops
  double call_seconds = 0;     ///< the whole call
  std::vector<OpRange> ops;    ///< the ops that each pass applied; empty: no pass, or a build without trace points
  double trace_points = 0;     ///< met in the call,
  double trace_points_in = 0;  ///< and in its passes
};
PassTimes time_passes(const std::function<void()>& call);

}  // namespace diptych::workloads
