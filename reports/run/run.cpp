#include "reports/run/run.h"

#include <algorithm>

#include <fmt/format.h>

namespace diptych::reports {
namespace {

template <class T>
T part_of(const Json* found) {
  return found == nullptr ? T() : T(*found);
}

std::optional<Interval> interval(const Json& json) {
  const auto low = number(json, "low");
  const auto high = number(json, "high");
  return low && high ? std::optional(Interval{*low, *high}) : std::nullopt;
}

}  // namespace

std::optional<std::string> Arm::cause() const {
  return member("cause").is_string() ? std::optional(text("cause")) : std::nullopt;
}

int Arm::threads() const {
  const auto of_other = reports::number(member("external"), "threads");
  return whole_count(number("threads").value_or(of_other.value_or(1)));
}

std::optional<std::vector<std::string>> Arm::groups() const {
  return member("groups").is_array() ? std::optional(texts("groups")) : std::nullopt;
}

namespace {

std::vector<double> numbers(const Json& list) {
  std::vector<double> all;
  for (const Json& entry : list) {
    all.push_back(entry.is_number() ? entry.get<double>() : 0);
  }
  return all;
}

}  // namespace

std::vector<double> FusedEntry::ratio() const { return numbers(list(json(), "ratio")); }

std::vector<double> ArmOfProcess::warmup_seconds() const { return numbers(list(json(), "warmup_seconds")); }

std::vector<ArmOfProcess> Process::arms(const std::string& name) const {
  std::vector<ArmOfProcess> found;
  for (const Json* const arm : arm_index_.all(arms().json(), "name", name)) {
    found.emplace_back(*arm);
  }
  return found;
}

std::vector<double> Process::seconds(const std::string& arm) const {
  return seconds(
      arm, [](const Json& entry) { return entry.is_number() ? std::optional(entry.get<double>()) : std::nullopt; });
}

std::vector<double> Process::seconds(const std::string& arm,
                                     const std::function<std::optional<double>(const Json&)>& read) const {
  std::vector<double> seconds;
  for (const Round round : rounds()) {
    if (const auto value = read(reports::member(round.all_seconds(), arm))) {
      seconds.push_back(*value);
    }
  }
  return seconds;
}

std::vector<double> said_of(std::span<const Process> processes, const std::string& arm, Said figure) {
  std::vector<double> values;
  for (const Process& process : processes) {
    for (const ArmOfProcess& entry : process.arms(arm)) {
      if (const auto value = (entry.*figure)()) {
        values.push_back(*value);
      }
    }
  }
  return values;
}

std::optional<Interval> Evidence::sign_interval() const { return interval(member("sign_interval")); }

std::optional<Interval> Evidence::bootstrap_interval() const { return interval(member("bootstrap_interval")); }

Arm Cell::arm(const std::string& name) const { return part_of<Arm>(arm_index_.first(arms().json(), "name", name)); }

Comparison Cell::main_comparison() const {
  const Parts<Comparison> all = comparisons();
  if (all.empty()) {
    return {};
  }
  const Comparison graph = comparison("graph");
  return graph ? graph : all.back();
}

Comparison Cell::comparison(const std::string& arm) const {
  return part_of<Comparison>(comparison_index_.first(comparisons().json(), "arm", arm));
}

std::optional<double> Cell::limit_share(const std::string& arm) const {
  return part_of<ArmOfLimits>(limit_index_.first(limits().arms().json(), "name", arm)).share();
}

Parts<Rung> Cell::rungs() const {
  const Parts<Rung> rungs = ladder().rungs();
  return rungs.empty() ? Parts<Rung>(list(json(), "rungs")) : rungs;
}

std::string MeasuringEnvironment::tuning_variables() const {
  std::string out;
  for (const auto& [name, value] : reports::member(member("process"), "tuning_variables").items()) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, value.is_string() ? value.get<std::string>() : "");
  }
  return out;
}

std::vector<int> Run::pinned() const {
  std::vector<int> cpus;
  for (const Json& cpu : list(json(), "pinned")) {
    cpus.push_back(cpu.is_number() ? cpu.get<int>() : -1);
  }
  return cpus;
}

bool Run::is_timed() const {
  const std::vector<std::string> metrics = plan().metrics();
  return metrics.empty() || std::find(metrics.begin(), metrics.end(), "time") != metrics.end();
}

Cell Run::cell(const std::string& workload) const {
  return part_of<Cell>(cell_index_.first(cells().json(), "workload", workload));
}

}  // namespace diptych::reports
