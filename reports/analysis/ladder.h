#pragma once

#include <optional>

#include "reports/run/run.h"
#include "reports/statistics/statistics.h"

/// The ladder of a cell: arms that differ in one cause each, measured in the same rounds. Pure functions of run.json.
namespace diptych::reports {

/// The cell's `ladder` from its raw part, `comparisons` and the arms' figures; null with fewer than two arms in the
/// ladder or without rounds.
///
/// Round j of process i gives the saving of a rung, t_from,j - t_to,j. A process gives the median over its rounds, as a
/// fraction of its median of the first arm, in units of that arm's own figure (`seconds`), so that differences in speed
/// between processes cancel. The estimate is the mean over processes with a t interval. Medians don't add up, so what
/// the rungs leave of the whole gap is the residual, with its own interval: rungs + residual = gap, in every process.
///
/// A rung's saving by place: the least and the most that it saved, over all pairs of measured arms whose passes differ
/// in this rung alone.
nlohmann::json ladder_of(const Cell& cell);

/// Whether a rung saves or costs time, and how much. The amount is never negative, but an end of its interval may be.
struct Saving {
  bool costs;
  Estimate amount;
};
Saving saving_of(const Estimate& saved);

/// The place of a rung on the time scale: it ends at its arm's own figure and begins where that figure would be without
/// the rung. A rung that costs begins below its end.
struct RungSpan {
  double from, to;
};
/// Empty if the rung or its arm has no figure.
std::optional<RungSpan> span_of(const Cell& cell, const Rung& rung);

}  // namespace diptych::reports
