#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "reports/run/run.h"

/// Memory and hardware counters of a run: advisory figures, which decide nothing.
namespace diptych::reports {

struct UsageMetric {
  const char* group;  ///< "memory" or "counters" in run.json
  const char* field;
  const char* name;  ///< in comparisons, which also have callgrind's instructions
  const char* unit;  ///< "bytes" or "count"
  const char* title;
};
/// peak_rss_bytes, page_faults, cycles, hardware_instructions, cache_misses, branch_misses.
const std::vector<UsageMetric>& usage_metrics();

/// Name -> median over the processes that have the metric; nullopt if none has. `processes`: those of the cell.
std::map<std::string, std::optional<double>> usage_of(std::span<const Process> processes, const std::string& arm);

/// Fills `memory` and `counters` of the cell's arms from its processes; leaves runs that recorded none unchanged.
void summarise_usage(nlohmann::json& cell);

/// The median in run.json; empty if there is none.
std::optional<double> usage_value(const Arm& arm, const UsageMetric& metric);
/// Whether memory or counters were asked for.
bool has_usage(const Arm& arm);
bool has_counters(const Run& run);
/// Why there are no hardware counters; empty if there are some, or none were asked for.
std::string missing_counters(const Run& run);
std::string missing_counters_of(const Cell& cell);

}  // namespace diptych::reports
