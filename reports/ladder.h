#pragma once

#include <nlohmann/json.hpp>

/// The ladder of a cell: arms that differ in one cause each, measured in the same rounds. Pure functions of run.json.
namespace diptych::reports {

/// The cell's `ladder` from its raw part, `comparisons` and `rungs`; null with fewer than two arms in the ladder or
/// without rounds.
///
/// Round j of process i gives the saving of a rung, t_from,j - t_to,j; a process gives the median over its rounds, as a
/// fraction of its median of the first arm, in units of that arm's mean time: a process that runs faster than the next
/// cancels. The estimate is the mean over processes with a t interval. Medians don't add up, so what the rungs leave of
/// the whole gap is the residual, with an interval of its own: rungs + residual = gap, in every process.
///
/// A rung's saving by place: of all pairs of measured arms whose passes differ in this rung alone, the least and the
/// most that it saved.
nlohmann::json ladder_of(const nlohmann::json& cell);

/// The rungs that views show: those of `ladder`, or the cell's `rungs` where a run has none.
const nlohmann::json& rungs_of(const nlohmann::json& cell);

}  // namespace diptych::reports
