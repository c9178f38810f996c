#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reports/analysis/verdict.h"
#include "reports/statistics/statistics.h"

namespace diptych::reports {

/// The gate run to be simulated: its number of processes per cell; all cells are judged together.
struct ResampledGate {
  int processes = 12;
  int resamples = 1000;
  ChangeRule rule;  // p_holm and family are filled in
  std::uint64_t seed = 1;
};

/// Family-wise false-positive rate of the gate's decision from A/A effects (one ln(head / base) per process and cell,
/// both sides the same program). Each resample draws processes with replacement and judges every cell with
/// `decide_change` after Holm's correction; it is an alarm if any cell is REGRESSED or IMPROVED. Cells with the same
/// number of processes are drawn with the same indices, so that what moves all cells of a process together stays
/// together. Signs are kept, so that a bias towards one side counts. The bound (95 %, one-sided) is that of the
/// resampling alone; the number of effects limits what can be known. Throws Error for fewer than two effects in a cell,
/// no cell, or effects that are not finite.
RateBound false_positive_rate(std::span<const std::vector<double>> cells, const ResampledGate& gate = {});

/// Judges all cells of one gate run: `decide_change` with Holm's correction over the cells whose state can be judged
/// (valid, quiet, at least two processes). The others don't count in the correction.
std::vector<nlohmann::json> decide_changes(std::span<const std::vector<double>> effects,
                                           std::span<const CellState> states, const ChangeRule& rule);

}  // namespace diptych::reports
