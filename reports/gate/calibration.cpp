#include "reports/gate/calibration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/gate/compare_side.h"
#include "reports/gate/false_positive.h"
#include "reports/gate/gate.h"
#include "reports/run/clock_range.h"
#include "reports/run/fingerprint.h"
#include "reports/run/json_access.h"
#include "reports/run/verdicts.h"
#include "reports/statistics/statistics.h"
#include "reports/text/format.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

std::string version_of(const Json& environment) { return text(member(environment, "build"), "version"); }

/// The part of the version that says whether measurements may have changed: before 1.0, this is the minor version.
std::string major_of(const std::string& version) {
  const std::size_t dot = version.find('.');
  const bool early = version.starts_with("0.");
  return version.substr(0, early ? version.find('.', dot + 1) : dot);
}

Json effects_of(const Json& base, const Json& head) {
  const Side a = read_side(base);
  const Side b = read_side(head);
  const std::map<std::string, const Subject*> others = by_key(b);
  Json effects = Json::object();
  for (const Subject& subject : a.subjects) {
    if (const auto other = others.find(subject.key()); other != others.end()) {
      effects[subject.key()] = paired_log_ratios(subject, *other->second);
    }
  }
  return effects;
}

struct CellSummary {
  std::vector<double> detectable;
  int alarms = 0;
};

Json summary_of_gates(const Parts<CalibrationRun>& runs) {
  int alarms = 0;
  int undecided = 0;
  int screen_alarms = 0;
  std::map<std::string, CellSummary> cells;
  for (const CalibrationRun run : runs) {
    const double code = run.exit_code().value_or(gate_cannot_tell);
    undecided += code == gate_cannot_tell ? 1 : 0;
    alarms += code == gate_regressed ? 1 : 0;
    screen_alarms += run.flagged().value_or(0) > 0 ? 1 : 0;
    for (const CalibrationRow row : run.rows()) {
      CellSummary& cell = cells[row.cell()];
      if (const auto value = row.detectable()) {
        cell.detectable.push_back(*value);
      }
      cell.alarms += row.verdict() == Verdict::regressed ? 1 : 0;
    }
  }
  const int told = static_cast<int>(runs.size()) - undecided;
  const RateBound bound = clopper_pearson(alarms, told);
  Json table = Json::array();
  for (const auto& [name, cell] : cells) {
    table.push_back({{"cell", name},
                     {"detectable", cell.detectable.empty() ? Json() : Json(median(cell.detectable))},
                     {"alarms", cell.alarms}});
  }
  return {{"runs", runs.size()},      {"alarms", alarms},   {"screen_alarms", screen_alarms},
          {"cannot_tell", undecided}, {"rate", bound.rate}, {"upper_95", bound.upper},
          {"cells", std::move(table)}};
}

/// How often an injected change is found by the rows that claim to detect one of its size.
Json summary_of_power(const InjectionEntry& injection, const Parts<CalibrationRun>& runs) {
  int claimed = 0;
  int caught = 0;
  int rows = 0;
  for (const CalibrationRun run : runs) {
    for (const CalibrationRow row : run.rows()) {
      const std::string metric = row.metric();
      const auto injected = injection.size(metric);
      if (!injected || !injection.hits(row)) {
        continue;
      }
      ++rows;
      const std::optional<Verdict> verdict = row.verdict();
      const auto detectable = row.detectable();
      // Counts have no spread: anything beyond the allowed change must be found.
      const bool claims = metric != "time" || (detectable && *detectable <= *injected);
      if (claims && !is_unusable(verdict)) {
        ++claimed;
        caught += verdict == Verdict::regressed ? 1 : 0;
      }
    }
  }
  const RateBound missed = clopper_pearson(claimed - caught, claimed);
  return {{"rows", rows},
          {"claimed", claimed},
          {"caught", caught},
          {"rate", claimed > 0 ? Json(1 - missed.rate) : Json()},
          {"lower_95", 1 - missed.upper}};
}

Json summarise(const CalibrationDocument& calibration) {
  const Parts<CalibrationRun> runs = calibration.runs();
  Json summary = summary_of_gates(runs);
  if (calibration.is_power_study()) {
    summary["power"] = summary_of_power(calibration.design().injection(), runs);
  }
  return summary;
}

/// Ratios of times that a clock can measure.
void check_log_ratios(const Json& log_ratios, const std::string& place) {
  static const double most = std::log(kMostSeconds / kLeastSeconds);
  for (const auto& [cell, values] : log_ratios.items()) {
    const bool are_ratios = values.is_array() && std::ranges::all_of(values, [](const Json& value) {
                              return value.is_number() && std::abs(value.get<double>()) <= most;
                            });
    if (!are_ratios) {
      throw Error(
          fmt::format("{}/{} is no list of logarithms of ratios of times, at most {:.3g}; take the calibration "
                      "again with `diptych calibrate`",
                      place, shorten(printable(cell), 60), most));
    }
  }
}

}  // namespace

Json new_calibration(const Json& environment, const Json& design) {
  Json calibration = {
      {"schema", calibration_schema_id}, {"environment", environment}, {"design", design}, {"runs", Json::array()}};
  calibration["summary"] = summarise(calibration);
  return calibration;
}

void add_calibration_run(Json& calibration, const Json& base, const Json& head, const GateDocument& gate) {
  Json rows = Json::array();
  for (const ComparisonRow row : gate.rows()) {
    if (row.is_time() || row.tier() == tier_name(Tier::instructions)) {
      Json& kept = rows.emplace_back(Json{{"cell", row.subject()}});
      for (const char* key : {"arm", "metric", "verdict", "screened", "detectable"}) {
        kept[key] = member(row.json(), key);
      }
    }
  }
  calibration["runs"].push_back({{"created", member(base, "created")},
                                 {"seed", member(base, "seed")},
                                 {"verdict", member(gate.json(), "verdict")},
                                 {"reason", member(gate.json(), "reason")},
                                 {"exit_code", member(gate.json(), "exit_code")},
                                 {"flagged", member(gate.stages().json(), "flagged")},
                                 {"rows", std::move(rows)},
                                 {"log_ratios", effects_of(base, head)}});
  calibration["summary"] = summarise(calibration);
}

Json resampled_gates(const CalibrationDocument& calibration, int resamples, std::uint64_t seed) {
  std::map<std::string, std::vector<double>> effects;
  for (const CalibrationRun run : calibration.runs()) {
    for (const auto& [cell, values] : run.log_ratios().items()) {
      for (const Json& value : values) {
        effects[cell].push_back(value.get<double>());
      }
    }
  }
  if (effects.empty()) {
    return nullptr;
  }
  std::vector<std::vector<double>> cells;
  for (auto& [name, values] : effects) {
    cells.push_back(std::move(values));
  }
  ResampledGate gate;
  gate.processes = whole_count(calibration.design().processes().value_or(gate.processes));
  gate.resamples = resamples;
  gate.seed = seed;
  const RateBound bound = false_positive_rate(cells, gate);
  return {{"resamples", resamples}, {"seed", seed}, {"rate", bound.rate}, {"upper_95", bound.upper}};
}

void check_calibration(const CalibrationDocument& calibration) {
  const std::string schema = calibration.schema();
  if (schema != calibration_schema_id) {
    throw Error(fmt::format("schema is \"{}\", not a calibration; expected \"{}\", which `diptych calibrate` writes",
                            shorten(printable(schema), 60), calibration_schema_id));
  }
  if (!calibration.is_whole()) {
    throw Error(
        "the calibration lacks \"runs\", \"environment\" or \"design\"; take it again with `diptych calibrate`");
  }
  const Parts<CalibrationRun> runs = calibration.runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    check_log_ratios(runs[i].log_ratios(), fmt::format("/runs/{}/log_ratios", i));
  }
}

CalibrationMatch match_calibration(const CalibrationDocument& calibration, const Json& environment) {
  check_calibration(calibration);
  const MachineComparison machine = compare_machines(calibration.environment(), environment);
  if (machine.same != SameMachine::yes) {
    return {false, machine.differences.empty()
                       ? "the calibration doesn't say which machine it is of"
                       : "the calibration is of another machine (" + machine.differences.front() + ")"};
  }
  const std::string then = version_of(calibration.environment());
  const std::string now = version_of(environment);
  if (major_of(then) != major_of(now)) {
    return {false, fmt::format("the calibration is of version {}, this is {}", then, now)};
  }
  if (calibration.is_power_study()) {
    return {false, "the file has runs with a change put in, not A/A runs; take those with `diptych calibrate`"};
  }
  const Json recomputed = summary_of_gates(calibration.runs());  // rather than what the file claims
  const CalibrationSummary summary = recomputed;
  const std::string said =
      fmt::format("{} A/A runs, {} false alarms: rate at most {} (95 %)", summary.runs() - summary.cannot_tell(),
                  summary.alarms(), format_percent(summary.upper_95()));
  if (summary.upper_95() > calibration_bound) {
    return {false,
            fmt::format(
                "the calibration bounds too little: {}; {} is asked for, add runs with `diptych calibrate --append`",
                said, format_percent(calibration_bound))};
  }
  return {true, "calibrated: " + said};
}

}  // namespace diptych::reports
