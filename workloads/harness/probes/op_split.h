#pragma once

#include <functional>
#include <memory>

#include <nlohmann/json.hpp>

#include "workloads/arms/arm.h"

/// Measures what eager does for each op besides its kernel: probes that run one part alone, or everything but kernels,
/// next to the timed rounds.
namespace diptych::workloads {

using MakeArm = std::function<std::unique_ptr<ArmInstance>(const Arm& arm)>;

/// The `op_split` of a process: seconds per call of the program in eager and as a graph, with kernels and without; the
/// same for its list of ops applied without program and tape; and those of each part alone. Medians over interleaved
/// repetitions. {"reason"} if there is no such list, or one call takes longer than the budget. The arms must be warm;
/// `replay` has no passes. `make` creates further instances, whose programs are spoilt. Takes about `budget_seconds`,
/// or a dozen calls if they are longer.
nlohmann::json split_ops(ArmInstance& eager, ArmInstance& replay, const MakeArm& make, double budget_seconds);

}  // namespace diptych::workloads
