#include "reports/gate/calibration.h"

#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/gate/compare.h"
#include "reports/gate/compare_side.h"
#include "reports/gate/false_positive.h"
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
  Json effects = Json::object();
  for (const Subject& subject : a.subjects) {
    const auto other = std::ranges::find(b.subjects, subject.key(), &Subject::key);
    if (other == b.subjects.end()) {
      continue;
    }
    effects[subject.key()] = paired_log_ratios(subject, *other);
  }
  return effects;
}

struct CellSummary {
  std::vector<double> detectable;
  int alarms = 0;
};

Json summary_of_gates(const Json& runs) {
  int alarms = 0;
  int undecided = 0;
  int screen_alarms = 0;
  std::map<std::string, CellSummary> cells;
  for (const Json& run : runs) {
    const double code = number(run, "exit_code").value_or(3);
    undecided += code == 3 ? 1 : 0;
    alarms += code == 2 ? 1 : 0;
    screen_alarms += number(run, "flagged").value_or(0) > 0 ? 1 : 0;
    for (const Json& row : list(run, "rows")) {
      CellSummary& cell = cells[text(row, "cell")];
      if (const auto value = number(row, "detectable")) {
        cell.detectable.push_back(*value);
      }
      cell.alarms += verdict_of(row) == Verdict::regressed ? 1 : 0;
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
Json summary_of_power(const Json& injection, const Json& runs) {
  int claimed = 0;
  int caught = 0;
  int rows = 0;
  for (const Json& run : runs) {
    for (const Json& row : list(run, "rows")) {
      const std::string metric = text(row, "metric");
      const auto injected = number(injection, metric);
      const Json& arms = list(injection, "arms");
      if (!injected || std::find(arms.begin(), arms.end(), member(row, "arm")) == arms.end()) {
        continue;
      }
      ++rows;
      const std::optional<Verdict> verdict = verdict_of(row);
      const auto detectable = number(row, "detectable");
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

Json summarise(const Json& calibration) {
  const Json& runs = member(calibration, "runs");
  Json summary = summary_of_gates(runs);
  if (is_power_study(calibration)) {
    summary["power"] = summary_of_power(member(member(calibration, "design"), "injection"), runs);
  }
  return summary;
}

}  // namespace

bool is_power_study(const Json& calibration) { return member(member(calibration, "design"), "injection").is_object(); }

Json new_calibration(const Json& environment, const Json& design) {
  Json calibration = {
      {"schema", calibration_schema_id}, {"environment", environment}, {"design", design}, {"runs", Json::array()}};
  calibration["summary"] = summarise(calibration);
  return calibration;
}

void add_calibration_run(Json& calibration, const Json& base, const Json& head, const Json& gate) {
  Json rows = Json::array();
  for (const Json& row : list(gate, "rows")) {
    if (text(row, "tier") == "time" || text(row, "tier") == "instructions") {
      rows.push_back({{"cell", row_subject(row)},
                      {"arm", member(row, "arm")},
                      {"metric", member(row, "metric")},
                      {"verdict", member(row, "verdict")},
                      {"screened", member(row, "screened")},
                      {"detectable", member(row, "detectable")}});
    }
  }
  calibration["runs"].push_back({{"created", member(base, "created")},
                                 {"seed", member(base, "seed")},
                                 {"verdict", member(gate, "verdict")},
                                 {"reason", member(gate, "reason")},
                                 {"exit_code", member(gate, "exit_code")},
                                 {"flagged", member(member(gate, "stages"), "flagged")},
                                 {"rows", std::move(rows)},
                                 {"log_ratios", effects_of(base, head)}});
  calibration["summary"] = summarise(calibration);
}

Json resampled_gates(const Json& calibration, int resamples, std::uint64_t seed) {
  std::map<std::string, std::vector<double>> effects;
  for (const Json& run : list(calibration, "runs")) {
    for (const auto& [cell, values] : member(run, "log_ratios").items()) {
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
  gate.processes = static_cast<int>(number(member(calibration, "design"), "processes").value_or(gate.processes));
  gate.resamples = resamples;
  gate.seed = seed;
  const RateBound bound = false_positive_rate(cells, gate);
  return {{"resamples", resamples}, {"seed", seed}, {"rate", bound.rate}, {"upper_95", bound.upper}};
}

void check_calibration(const Json& calibration) {
  const std::string schema = text(calibration, "schema");
  if (schema != calibration_schema_id) {
    throw Error(fmt::format("schema is \"{}\", not a calibration; expected \"{}\", which `diptych calibrate` writes",
                            shorten(printable(schema), 60), calibration_schema_id));
  }
  if (!member(calibration, "runs").is_array() || !member(calibration, "environment").is_object() ||
      !member(calibration, "design").is_object()) {
    throw Error(
        "the calibration lacks \"runs\", \"environment\" or \"design\"; take it again with `diptych calibrate`");
  }
}

CalibrationMatch match_calibration(const Json& calibration, const Json& environment) {
  check_calibration(calibration);
  const MachineComparison machine = compare_machines(member(calibration, "environment"), environment);
  if (machine.same != SameMachine::yes) {
    return {false, machine.differences.empty()
                       ? "the calibration doesn't say which machine it is of"
                       : "the calibration is of another machine (" + machine.differences.front() + ")"};
  }
  const std::string then = version_of(member(calibration, "environment"));
  const std::string now = version_of(environment);
  if (major_of(then) != major_of(now)) {
    return {false, fmt::format("the calibration is of version {}, this is {}", then, now)};
  }
  if (is_power_study(calibration)) {
    return {false, "the file has runs with a change put in, not A/A runs; take those with `diptych calibrate`"};
  }
  const Json summary = summary_of_gates(member(calibration, "runs"));  // recomputed, rather than what the file claims
  const double upper = summary["upper_95"].get<double>();
  const std::string said = fmt::format("{} A/A runs, {} false alarms: rate at most {} (95 %)",
                                       summary["runs"].get<int>() - summary["cannot_tell"].get<int>(),
                                       summary["alarms"].get<int>(), format_percent(upper));
  if (upper > calibration_bound) {
    return {false,
            fmt::format(
                "the calibration bounds too little: {}; {} is asked for, add runs with `diptych calibrate --append`",
                said, format_percent(calibration_bound))};
  }
  return {true, "calibrated: " + said};
}

}  // namespace diptych::reports
