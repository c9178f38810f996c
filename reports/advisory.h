#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "reports/compare_side.h"
#include "reports/fingerprint.h"
#include "reports/table.h"

/// Advisory rows of a comparison: resident memory, page faults, hardware counters. They have no verdict and stand in a
/// list of their own, "advisory", so that nothing can be decided by them.
namespace diptych::reports {

/// Appends {"workload", "arm", "metric", "tier": "advisory", "unit", "base", "head", "ratio"} for each metric that both
/// sides have. Hardware counters only where the machines aren't known to differ; peaks only where the processes had
/// measured the same before.
void add_advisory_rows(nlohmann::json& rows, const Subject& base, const Subject& head, SameMachine machine);

/// How many rows a view shows: those that moved most.
inline constexpr std::size_t most_advisory_rows = 10;

/// Of a comparison or a gate document; empty if it has none.
std::string render_advisory(const nlohmann::json& document, const TableOptions& options = {});
std::string markdown_advisory(const nlohmann::json& document, std::size_t most = most_advisory_rows);

}  // namespace diptych::reports
