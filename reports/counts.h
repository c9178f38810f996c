#pragma once

#include <nlohmann/json.hpp>

#include "reports/table.h"

/// What was counted, not timed: nodes, dispatches, allocations, bytes, instructions.
namespace diptych::reports {

/// Whether the run is to be shown by its counts: nothing was timed, or instructions were asked for.
bool shows_counts(const nlohmann::json& run);

/// One row a workload and arm, for terminals; cells whose arms disagree are named with the reason.
std::string render_counts(const nlohmann::json& run, const TableOptions& options = {});

/// The same as a Markdown table.
std::string markdown_counts(const nlohmann::json& run);

}  // namespace diptych::reports
