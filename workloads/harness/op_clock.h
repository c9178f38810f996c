#pragma once

#include <functional>
#include <vector>

#include "workloads/harness/op_list.h"

/// What a call spends in its backward passes: by trace points that read the clock and do nothing else. A
/// tracer would write down each op, which takes longer than many ops do. Nothing else may be traced at the time.
namespace diptych::workloads {

/// The backward passes of a call; those inside others count as theirs.
struct PassTimes {
  double seconds = 0;          ///< in all passes, their ops included
  double call_seconds = 0;     ///< the whole call
  std::vector<OpRange> ops;    ///< that each pass applied; empty: no pass, or a build without trace points
  double trace_points = 0;     ///< met in the call,
  double trace_points_in = 0;  ///< and in its passes
};
PassTimes time_passes(const std::function<void()>& call);

}  // namespace diptych::workloads
