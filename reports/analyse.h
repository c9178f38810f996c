#pragma once

#include <nlohmann/json.hpp>

#include "reports/verdict.h"

namespace diptych::reports {

/// What the raw part of a cell says of its validity, and of how quiet the machine was.
CellState read_state(const nlohmann::json& cell, const nlohmann::json& run);

/// Fills the computed part of every cell from its raw part (`processes`, `validity`, the run's `size` and `seed`): each
/// arm's `seconds`, `first_call_seconds`, `worst_call_seconds`, `compile_seconds`, `warmup` (warmup.h); the cell's
/// `comparisons` of "eager" with every other arm, each with its `evidence` (evidence.h); and its `rungs`, from each arm
/// to the next one of the ladder. Definitions: statistics.h. Idempotent. Throws Error, naming cell, process and round,
/// for times that are missing, zero, negative or not finite.
///
/// Verdicts, the first that applies:
///   INVALID       arms-disagree | arm-failed (another framework's process) | empty
///   CONTAMINATED  control-drift | steal-time: over 5 % in any process | load: in the median process, other programs
///   used
///                 over a quarter of the CPUs (only where the harness recorded it)
///   INDICATIVE    quick-size: a direction, not a verdict
///   INCONCLUSIVE  too-few-processes: one process has no interval
///   INCONCLUSIVE  holm: the interval excludes 1, but p, adjusted over all comparisons of the run that are neither
///                 INVALID nor CONTAMINATED, is above 5 %
///   FASTER, SLOWER  interval-excludes-1
///   EQUIVALENT    within-margin: the 90 % interval lies within +-2 %
///   INCONCLUSIVE  effect-below-mde
void analyse(nlohmann::json& run);

}  // namespace diptych::reports
