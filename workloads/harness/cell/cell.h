#pragma once

#include <nlohmann/json.hpp>

#include "workloads/harness/cell/cell_plan.h"

/// One cell (a workload under several arms) in one process: check, then rounds.
namespace diptych::workloads {

/// An arm's entry in the cell's `arms`, with nothing counted yet.
nlohmann::json uncounted(const Arm& arm);

/// The cell's part of run.json, raw: `validity`, `metrics`, `arms` (exact metrics, passes) and one element of
/// `processes`, or none without rounds. Arms that disagree are not timed. Passes on what the program throws, and throws
/// Error for a clock that steps.
nlohmann::json measure_cell(const CellPlan& plan, const Progress& progress);

}  // namespace diptych::workloads
