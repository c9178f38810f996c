#pragma once

#include <vector>

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// The ladder's `split`, from the processes' `op_split` and what the rung from eager to replay saved in each process
/// (`unit` is the mean time of eager). Every part is taken as a fraction of the eager call that was measured between
/// the parts, in `unit`s: a machine that runs faster beside the rounds cancels. null where nothing was split.
nlohmann::json split_of(const nlohmann::json& cell, const std::vector<double>& rung, double unit);

}  // namespace diptych::reports
