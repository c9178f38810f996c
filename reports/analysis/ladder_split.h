#pragma once

#include <vector>

#include "reports/run/run.h"

namespace diptych::reports {

/// The ladder's `split`, from the processes' `op_split` and the time that the rung from eager to replay saved in each
/// process (`unit` is the mean time of eager). Every part is taken as a fraction of the eager call that was measured
/// between the parts, in `unit`s, so that a machine whose speed differs from that during the rounds cancels. null if
/// nothing was split.
nlohmann::json split_of(const Cell& cell, const std::vector<double>& rung, double unit);

}  // namespace diptych::reports
