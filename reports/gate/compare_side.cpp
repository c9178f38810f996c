#include "reports/gate/compare_side.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/runtime/exact_metrics.h"
#include "reports/analysis/cell_state.h"
#include "reports/analysis/usage.h"
#include "reports/run/clock_range.h"
#include "reports/run/google_benchmark.h"
#include "reports/run/json_access.h"
#include "reports/run/run.h"
#include "reports/run/schema.h"
#include "reports/statistics/statistics.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

std::string shown(const std::string& name) { return shorten(printable(name), 120); }

/// In seconds; `unit`: that the value is in.
double measured(const Json& value, const std::string& where, double unit = 1) {
  const double seconds = value.is_number() ? value.get<double>() * unit : 0;
  if (!(seconds > 0) || !std::isfinite(seconds)) {
    throw Error(
        fmt::format("{} is {}, not a positive finite time; remove it or measure it again", where,
                    value.is_null() ? "missing" : shown(value.dump(-1, ' ', true, Json::error_handler_t::replace))));
  }
  if (seconds < kLeastSeconds || seconds > kMostSeconds) {
    throw Error(fmt::format("{} is {} s, which no clock measures ({:g} to {:g} s); remove it or measure it again",
                            where, seconds, kLeastSeconds, kMostSeconds));
  }
  return seconds;
}

// ---- run.json

std::vector<double> rounds_of(const Process& process, const std::string& arm, const std::string& cell) {
  const std::string where = fmt::format("{}: a round of '{}'", shown(cell), shown(arm));
  return process.seconds(arm, [&](const Json& entry) { return measured(entry, where); });
}

Subject read_arm(const Run& run, const Cell& cell, const std::vector<Process>& processes, const Arm& arm,
                 const CellState& state) {
  Subject subject;
  subject.workload = cell.workload();
  subject.arm = arm.name();
  subject.state = state;
  subject.method = method_of(run, cell, arm);
  if (const std::string failure = arm.failure(); !failure.empty()) {
    subject.state.agree = false;
    subject.state.disagreement = failure;
    subject.state.invalid_reason = "arm-failed";
    return subject;
  }
  for (const runtime::ExactMetric& metric : runtime::exact_metrics()) {
    subject.exact[metric.name] = arm.exact(metric.name);
  }
  if (const Instructions counted = arm.instructions()) {
    subject.counted = true;
    subject.instructions = counted.value();
    subject.instruction_set = counted.isa();
    subject.not_counted = counted.reason();
  }
  subject.usage = usage_of(processes, subject.arm);
  if (!processes.empty()) {
    subject.after = processes.front().after();
  }
  for (const Process& process : processes) {
    const std::vector<double> seconds = rounds_of(process, subject.arm, subject.workload);
    if (seconds.empty()) {
      continue;  // a child that died early
    }
    subject.log_seconds.push_back(std::log(median(seconds)));
    subject.turns.push_back(process.has_turns() ? seconds : std::vector<double>());
    if (subject.arm != "eager" && process.rounds().front().seconds("eager")) {
      subject.log_speedups.push_back(process_effect(rounds_of(process, "eager", subject.workload), seconds));
    }
  }
  return subject;
}

Side read_run(const Run& run) {
  Side side;
  side.format = "diptych";
  side.environment = run.environment();
  side.method = method_of(run);
  side.about = {{"name", run.name()}, {"created", run.created()}, {"status", run.status()}};
  for (const char* part : {"size", "seed", "numerics", "threads"}) {
    side.about[part] = member(run.json(), part);
  }
  for (const Cell cell : run.cells()) {
    const CellState state = read_state(cell, run);
    const std::vector<Process> processes = cell.processes().all();
    for (const Arm arm : cell.arms()) {
      side.subjects.push_back(read_arm(run, cell, processes, arm, state));
    }
  }
  return side;
}

// ---- Google Benchmark

double unit_seconds(const std::string& unit, const std::string& name) {
  static const std::map<std::string, double> units = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  const auto found = units.find(unit);
  if (found == units.end()) {
    throw Error(fmt::format("benchmark '{}' has the time unit '{}'; Google Benchmark writes ns, us, ms or s",
                            shown(name), shown(unit)));
  }
  return found->second;
}

/// Which statistic over repetitions ("mean"), or fit of complexity, an entry is: no sample. Empty for a sample. Before
/// version 1.5 only the name tells.
std::string aggregate_of(const Json& benchmark, const std::string& name) {
  if (const std::string type = text(benchmark, "run_type"); !type.empty()) {
    const std::string statistic = text(benchmark, "aggregate_name");
    return type == "iteration" ? "" : statistic.empty() ? type : statistic;
  }
  for (const std::string statistic : {"mean", "median", "stddev", "cv", "BigO", "RMS"}) {
    if (name.ends_with("_" + statistic)) {
      return statistic;
    }
  }
  return "";
}

bool has_failed(const Json& benchmark) {
  const std::string skipped = text(benchmark, "skipped");
  return member(benchmark, "error_occurred") == true || (!skipped.empty() && skipped != "NOT_SKIPPED");
}

/// `places`: of the subjects, by name.
void read_benchmark(const Json& benchmark, std::vector<Subject>& subjects, std::map<std::string, std::size_t>& places) {
  std::string name = text(benchmark, "run_name");
  name = name.empty() ? text(benchmark, "name") : name;
  if (name.empty()) {
    throw Error("a benchmark without a name; is this file Google Benchmark's?");
  }
  const std::string statistic = aggregate_of(benchmark, text(benchmark, "name"));
  if (!statistic.empty() && statistic != "mean" && statistic != "median") {
    return;
  }
  if (!statistic.empty() && text(benchmark, "run_name").empty() && name.ends_with("_" + statistic)) {
    name.resize(name.size() - statistic.size() - 1);
  }
  const auto [place, is_new] = places.try_emplace(name, subjects.size());
  if (is_new) {
    Subject& added = subjects.emplace_back();
    added.workload = name;
    added.state.agree = true;
  }
  Subject& subject = subjects[place->second];
  if (has_failed(benchmark)) {
    subject.state.agree = false;
    subject.state.disagreement = "the benchmark reported an error: " + text(benchmark, "error_message");
    return;
  }
  const std::string unit = benchmark.contains("time_unit") ? text(benchmark, "time_unit") : "ns";
  const double seconds = measured(member(benchmark, "real_time"),
                                  fmt::format("real_time of benchmark '{}'", shown(name)), unit_seconds(unit, name));
  if (statistic.empty()) {
    subject.log_seconds.push_back(std::log(seconds));
  } else if (!subject.aggregate || statistic == "median") {
    subject.aggregate = seconds;
  }
}

Side read_benchmarks(const Json& document) {
  Side side;
  side.format = "google-benchmark";
  const Json& context = member(document, "context");
  side.environment = {{"benchmark", context.is_object() ? context : Json::object()},
                      {"cpu", {{"model", member(context, "cpu_model")}}},
                      {"os", {{"kernel", member(context, "kernel")}}}};
  side.about = {{"name", text(context, "executable")}, {"created", text(context, "date")}};
  side.method = method_of_benchmarks(context);
  if (!member(document, "benchmarks").is_array()) {
    throw Error("\"benchmarks\" is no list; is this file Google Benchmark's?");
  }
  std::map<std::string, std::size_t> places;
  for (const Json& benchmark : document["benchmarks"]) {
    read_benchmark(benchmark, side.subjects, places);
  }
  return side;
}

}  // namespace

std::map<std::string, const Subject*> by_key(const Side& side) {
  std::map<std::string, const Subject*> found;
  for (const Subject& subject : side.subjects) {
    found.try_emplace(subject.key(), &subject);
  }
  return found;
}

std::optional<double> figure_of(const std::map<std::string, std::optional<double>>& figures,
                                const std::string& metric) {
  const auto found = figures.find(metric);
  return found == figures.end() ? std::nullopt : found->second;
}

std::vector<double> paired_log_ratios(const Subject& base, const Subject& head) {
  std::vector<double> effects;
  for (std::size_t i = 0; i < std::min(base.log_seconds.size(), head.log_seconds.size()); ++i) {
    const bool in_turns = i < base.turns.size() && i < head.turns.size() && !base.turns[i].empty() &&
                          base.turns[i].size() == head.turns[i].size();
    effects.push_back(in_turns ? process_effect(head.turns[i], base.turns[i])
                               : head.log_seconds[i] - base.log_seconds[i]);
  }
  return effects;
}

Side read_side(const Json& document) {
  if (is_google_benchmark(document)) {
    return read_benchmarks(document);
  }
  if (text(document, "schema") == schema_id) {
    return read_run(document);
  }
  throw Error(fmt::format("neither a run of Diptych (\"schema\": \"{}\") nor Google Benchmark's JSON (\"benchmarks\")",
                          schema_id));
}

}  // namespace diptych::reports
