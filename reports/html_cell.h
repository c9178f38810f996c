#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

/// Pieces of the HTML report; all take names as they stand in the run and give escaped HTML.
namespace diptych::reports {

/// The overview: one row per cell, sortable.
std::string html_overview(const nlohmann::json& run);

/// What stands behind the verdicts: intervals, variance, autocorrelation, warm-up; empty when nothing was recorded.
std::string html_evidence(const nlohmann::json& cell);

/// One cell: verdict, facts, why, charts, tables, command.
std::string html_cell(const nlohmann::json& cell, std::size_t index);

}  // namespace diptych::reports
