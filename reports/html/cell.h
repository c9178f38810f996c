#pragma once

#include <cstddef>
#include <string>

#include "reports/run/run.h"

/// Pieces of the HTML report; all take names as they stand in the run and return escaped HTML.
namespace diptych::reports {

/// The overview: one row per cell, sortable.
std::string html_overview(const Run& run);

/// The evidence behind the verdicts: intervals, variance, autocorrelation, warm-up; empty if nothing was recorded.
std::string html_evidence(const Cell& cell);

/// One cell: verdict, facts, why, charts, tables, command.
std::string html_cell(const Cell& cell, std::size_t index);

}  // namespace diptych::reports
