#pragma once

#include <nlohmann/json.hpp>

#include "workloads/arms/arm.h"

/// What eager does for each op besides its kernel: probes that run one part alone, beside the timed rounds.
namespace diptych::workloads {

/// The `op_split` of a process: seconds per call of the program in eager, of its list of ops applied without program
/// and tape, and of each part alone; medians over interleaved repetitions. Where there is no such list, or one
/// call takes longer than the budget, {"reason"}. The arms have to be warm; `replay` has no passes. Takes about
/// `budget_seconds`, or a dozen calls if they are longer.
nlohmann::json split_ops(ArmInstance& eager, ArmInstance& replay, double budget_seconds);

}  // namespace diptych::workloads
