#pragma once

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// Fills the computed part of every cell from its raw part (`processes`, `validity`, the run's `size` and `seed`): each
/// arm's `seconds`, `first_call_seconds`, `worst_call_seconds`, `compile_seconds`, `warmup` (warmup.h); the cell's
/// `comparisons` of "eager" with every other arm, each with its `evidence` (evidence.h); and its `rungs`, from each arm
/// to the next one of the ladder. Definitions: statistics.h. Idempotent. Throws Error, naming cell, process and round,
/// for times that are missing, zero, negative or not finite.
///
/// Verdicts, of which the first that applies counts:
///   INVALID       arms-disagree | arm-failed (another framework's process) | empty
///   CONTAMINATED  control-drift | steal-time | load: what others took of the timed blocks (cell_state.h)
///   INDICATIVE    quick-size: a direction, not a verdict
///   INCONCLUSIVE  too-few-processes: one process has no interval
///   INCONCLUSIVE  holm: the interval excludes 1, but p, adjusted over all comparisons of the run that are neither
///                 INVALID nor CONTAMINATED, is above 5 %
///   FASTER, SLOWER  interval-excludes-1
///   EQUIVALENT    within-margin: the 90 % interval lies within +-2 %
///   INCONCLUSIVE  effect-below-mde
void analyse(nlohmann::json& run);

}  // namespace diptych::reports
