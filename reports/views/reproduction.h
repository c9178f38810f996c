#pragma once

#include <string>

#include "reports/run/run.h"

/// The origin of one number of a run, and whether it was reproduced.
namespace diptych::reports {

/// The cell of that workload. Throws Error with the nearest name if there is none.
Cell cell_of(const Run& run, const std::string& workload);

/// Lines for readers: the figures of the cell (only those of `arm`, unless it is empty), the command, the seeds of the
/// run and of its processes, the build (git revision, SHA-256 of the program; how to get it if this is another one),
/// and the differences from `environment`, the present one.
std::string describe_number(const Run& run, const Cell& cell, const std::string& arm, const std::string& command,
                            const nlohmann::json& environment);

/// One row per arm: the recorded and the new time, and whether their intervals overlap; counts must be equal.
std::string describe_repetition(const Cell& recorded, const Cell& repeated, const std::string& arm);

}  // namespace diptych::reports
