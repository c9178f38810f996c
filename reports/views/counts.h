#pragma once

#include "reports/run/run.h"
#include "reports/text/table_options.h"

/// Figures that are counted, not timed: nodes, dispatches, allocations, bytes, instructions.
namespace diptych::reports {

/// Whether to show the run by its counts: nothing was timed, or instructions were asked for.
bool shows_counts(const Run& run);

/// One row per workload and arm, for terminals; cells whose arms disagree are named with the reason.
std::string render_counts(const Run& run, const TableOptions& options = {});

/// The same as a Markdown table.
std::string markdown_counts(const Run& run);

}  // namespace diptych::reports
