#include "reports/analysis/usage.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reports/run/run.h"
#include "reports/statistics/statistics.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

/// The entries of an arm in the processes.
std::vector<ArmOfProcess> entries_of(std::span<const Process> processes, const std::string& arm) {
  std::vector<ArmOfProcess> entries;
  for (const Process& process : processes) {
    const std::vector<ArmOfProcess> own = process.arms(arm);
    entries.insert(entries.end(), own.begin(), own.end());
  }
  return entries;
}

std::optional<double> median_of(const std::vector<ArmOfProcess>& entries, const UsageMetric& metric) {
  std::vector<double> values;
  for (const ArmOfProcess& entry : entries) {
    const auto value = entry.usage(metric.group, metric.field);
    if (value && std::isfinite(*value)) {
      values.push_back(*value);
    }
  }
  return values.empty() ? std::nullopt : std::optional(median(values));
}

bool has_counters_in(const Cell& cell) {
  for (const Arm arm : cell.arms()) {
    for (const UsageMetric& metric : usage_metrics()) {
      if (metric.group == std::string_view("counters") && usage_value(arm, metric)) {
        return true;
      }
    }
  }
  return false;
}

/// The reason why the cell has no counters, if it gives one.
std::string why_none(const Cell& cell) {
  for (const Arm arm : cell.arms()) {
    if (const std::string reason = arm.why_no_usage("counters"); !reason.empty()) {
      return "No hardware counters: " + shorten(printable(reason), 300);
    }
  }
  return "";
}

}  // namespace

const std::vector<UsageMetric>& usage_metrics() {
  static const std::vector<UsageMetric> metrics = {
      {"memory", "peak_rss_bytes", "peak_rss_bytes", "bytes", "peak RSS"},
      {"memory", "page_faults", "page_faults", "count", "page faults"},
      {"counters", "cycles", "cycles", "count", "cycles"},
      {"counters", "instructions", "hardware_instructions", "count", "instructions"},
      {"counters", "cache_misses", "cache_misses", "count", "cache misses"},
      {"counters", "branch_misses", "branch_misses", "count", "branch misses"}};
  return metrics;
}

std::map<std::string, std::optional<double>> usage_of(std::span<const Process> processes, const std::string& arm) {
  const std::vector<ArmOfProcess> entries = entries_of(processes, arm);
  std::map<std::string, std::optional<double>> values;
  for (const UsageMetric& metric : usage_metrics()) {
    values[metric.name] = median_of(entries, metric);
  }
  return values;
}

void summarise_usage(nlohmann::json& cell) {
  const std::vector<Process> processes = Cell(cell).processes().all();
  for (Json& arm : cell["arms"]) {
    const std::vector<ArmOfProcess> entries = entries_of(processes, Arm(arm).name());
    for (const char* group : {"memory", "counters"}) {
      arm.erase(group);
      for (const ArmOfProcess& entry : entries) {
        const std::string reason = entry.why_no_usage(group);
        if (!reason.empty() && Arm(arm).why_no_usage(group).empty()) {
          arm[group]["reason"] = reason;
        }
        for (const UsageMetric& metric : usage_metrics()) {
          if (entry.has_usage(group) && metric.group == std::string_view(group)) {
            arm[group][metric.field] = to_json(median_of(entries, metric));
          }
        }
      }
    }
  }
}

std::optional<double> usage_value(const Arm& arm, const UsageMetric& metric) {
  return arm.usage(metric.group, metric.field);
}

bool has_usage(const Arm& arm) { return arm.has_usage("memory") || arm.has_usage("counters"); }

bool has_counters(const Run& run) {
  const Parts<Cell> cells = run.cells();
  return std::any_of(cells.begin(), cells.end(), has_counters_in);
}

std::string missing_counters_of(const Cell& cell) { return has_counters_in(cell) ? "" : why_none(cell); }

std::string missing_counters(const Run& run) {
  if (has_counters(run)) {
    return "";
  }
  for (const Cell cell : run.cells()) {
    if (std::string why = why_none(cell); !why.empty()) {
      return why;
    }
  }
  return "";
}

}  // namespace diptych::reports
