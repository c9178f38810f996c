#pragma once

#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "reports/table.h"

/// Memory and hardware counters of a run: advisory figures, which decide nothing.
namespace diptych::reports {

struct UsageMetric {
  const char* group;  ///< "memory" or "counters" in run.json
  const char* field;
  const char* name;  ///< in comparisons, where callgrind's instructions stand too
  const char* unit;  ///< "bytes" or "count"
  const char* title;
};
/// peak_rss_bytes, page_faults, cycles, hardware_instructions, cache_misses, branch_misses.
const std::vector<UsageMetric>& usage_metrics();

/// Name -> median over the processes that have it; nullopt where none has. From the raw part of the cell.
std::map<std::string, std::optional<double>> usage_of(const nlohmann::json& cell, const std::string& arm);

/// Fills `memory` and `counters` of the cell's arms from its processes; leaves runs alone that recorded none.
void summarise_usage(nlohmann::json& cell);

/// For terminals: a table of the hardware counters, or one line that says why there are none; empty for runs that
/// recorded nothing.
std::string render_usage(const nlohmann::json& run, const TableOptions& options = {});
/// Memory and counters of every arm, folded, and the same line.
std::string markdown_usage(const nlohmann::json& run);
/// Of one cell, as a folded table of the HTML report.
std::string html_usage(const nlohmann::json& cell);

}  // namespace diptych::reports
