#include "reports/analysis/framework_counters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/run/run.h"
#include "reports/statistics/statistics.h"

namespace diptych::reports {
namespace {

/// By name: what each process said.
std::map<std::string, std::vector<double>> counters_of(std::span<const Process> processes, const std::string& arm) {
  std::map<std::string, std::vector<double>> values;
  for (const Process& process : processes) {
    for (const ArmOfProcess& entry : process.arms(arm)) {
      const Json& counters = member(entry.json(), "framework_counters");
      for (const auto& [name, value] : counters.items()) {
        if (counters.is_object() && value.is_number() && std::isfinite(value.get<double>())) {
          values[name].push_back(value.get<double>());
        }
      }
    }
  }
  return values;
}

Json metric_of(std::string name, const std::string& arm, double value) {
  std::string unit;
  for (const auto& [suffix, title, of_suffix] :
       {std::array<const char*, 3>{"_seconds", " time", "seconds"}, {"_bytes", "", "bytes"}}) {
    if (name.ends_with(suffix)) {
      name.replace(name.size() - std::string_view(suffix).size(), std::string::npos, title);
      unit = of_suffix;
      break;
    }
  }
  std::replace(name.begin(), name.end(), '_', ' ');
  return {{"name", name}, {"arm", arm}, {"value", value}, {"unit", unit}};
}

}  // namespace

void summarise_framework_counters(Json& cell) {
  const auto metrics = cell.find("metrics");
  if (metrics == cell.end() || !metrics->is_array()) {
    return;
  }
  std::vector<std::string> external;
  for (const Arm arm : Cell(cell).arms()) {
    if (arm.is_external()) {
      external.push_back(arm.name());
    }
  }
  const std::set<std::string> is_external(external.begin(), external.end());
  auto& entries = metrics->get_ref<Json::array_t&>();
  std::erase_if(entries, [&](const Json& entry) { return is_external.contains(MetricEntry(entry).arm()); });
  const std::vector<Process> processes = Cell(cell).processes().all();
  for (const std::string& arm : external) {
    for (auto& [name, values] : counters_of(processes, arm)) {
      entries.push_back(metric_of(name, arm, median(values)));
    }
  }
}

}  // namespace diptych::reports
