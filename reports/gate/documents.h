#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/run/part.h"

/// The documents of comparisons (compare.h), gates (gate.h) and calibrations (calibration.h), each as a typed view of
/// its JSON (run/part.h); this is the only place that names the keys to read.
namespace diptych::reports {

/// Names or sentences in an array.
class NameList : public Part {
 public:
  using Part::Part;
  bool empty() const { return json().empty(); }
  /// "a, b"; elements of other types are empty.
  std::string joined() const;
  /// Throws for elements of other types.
  std::vector<std::string> all() const { return json().get<std::vector<std::string>>(); }
};

/// A part with figures that only this program computes, and that therefore can't be missing.
class Computed : public Part {
 public:
  using Part::Part;

 protected:
  /// Throws if it is missing or of another type: a figure that is made up would be taken for a result.
  template <class T>
  T figure(const char* key) const {
    return json().at(key).get<T>();
  }
};

// ---- A comparison, and what a gate has of it

class MuteEntry : public Part {
 public:
  using Part::Part;
  std::string until() const { return text("until"); }
  std::string reason() const { return text("reason"); }
};

/// One metric of an arm on both sides. Advisory rows have no verdict.
class ComparisonRow : public Part {
 public:
  using Part::Part;
  std::string workload() const { return text("workload"); }
  /// Empty in files of Google Benchmark.
  std::string arm() const { return text("arm"); }
  /// "mlp/digits/graph". Not escaped: escape it for the medium.
  std::string subject() const;
  std::string metric() const { return text("metric"); }
  std::string tier() const { return text("tier"); }
  bool is_time() const { return tier() == "time"; }
  std::string unit() const { return text("unit"); }
  std::optional<double> base() const { return number("base"); }
  std::optional<double> head() const { return number("head"); }
  std::optional<Estimate> ratio() const { return estimate("ratio"); }
  std::optional<double> detectable() const { return number("detectable"); }
  std::optional<Verdict> verdict() const { return named_verdict("verdict"); }
  std::string verdict_name() const { return text("verdict"); }
  std::string reason() const { return text("reason"); }
  std::string detail() const { return text("detail"); }
  /// What makes two rows those of the same metric.
  std::tuple<std::string, std::string, std::string> key() const { return {workload(), arm(), metric()}; }

  // Only in a gate:
  std::string role() const { return text("role"); }
  bool decides() const { return role() == "deciding"; }
  /// The verdicts of both measurements; of the second one only if there was one.
  std::optional<Verdict> screened() const { return named_verdict("screened"); }
  std::optional<Verdict> confirmed() const { return named_verdict("confirmed"); }
  MuteEntry mute() const { return member("mute"); }
};

/// A field in which the environments of the sides differ.
class EnvironmentDifference : public Part {
 public:
  using Part::Part;
  std::string name() const { return text("name"); }
  std::string base() const { return text("base"); }
  std::string head() const { return text("head"); }
  bool matters() const { return is_true("matters"); }
};

/// What was measured in another way.
class MethodEntry : public Part {
 public:
  using Part::Part;
  /// "mlp/digits/ort"; empty: in the whole run.
  std::string of() const { return text("of"); }
  std::string name() const { return text("name"); }
  std::string base() const { return text("base"); }
  std::string head() const { return text("head"); }
};

class MachineEntry : public Part {
 public:
  using Part::Part;
  /// "same", "different" or "unknown".
  std::string same() const { return text("same"); }
  NameList differences() const { return list(json(), "differences"); }
};

class RowSummary : public Part {
 public:
  using Part::Part;
  std::optional<Verdict> verdict() const { return named_verdict("verdict"); }
  std::string verdict_name() const { return text("verdict"); }
  std::optional<double> rows() const { return number("rows"); }
  std::optional<double> count(Verdict verdict) const;
};

/// What the documents of comparisons and of gates have in common.
class ComparedDocument : public Computed {
 public:
  using Computed::Computed;
  std::string design() const { return text("design"); }
  MachineEntry machine() const { return member("machine"); }
  Parts<EnvironmentDifference> environment() const { return Parts<EnvironmentDifference>(list(json(), "environment")); }
  Parts<ComparisonRow> rows() const { return Parts<ComparisonRow>(list(json(), "rows")); }
  Parts<ComparisonRow> advisory() const { return Parts<ComparisonRow>(list(json(), "advisory")); }
  NameList new_cells() const { return list(json(), "new"); }
  NameList vanished() const { return list(json(), "vanished"); }
  NameList notes() const { return list(json(), "notes"); }
  RowSummary summary() const { return member("summary"); }
};

class ComparisonDocument : public ComparedDocument {
 public:
  using ComparedDocument::ComparedDocument;
  std::string by() const { return text("by"); }
  /// Those of the whole run first.
  Parts<MethodEntry> method() const { return Parts<MethodEntry>(list(json(), "method")); }
  std::optional<double> alpha() const { return number("alpha"); }
};

class Stages : public Part {
 public:
  using Part::Part;
  std::optional<double> screened() const { return number("screened"); }
  std::optional<double> flagged() const { return number("flagged"); }
  std::optional<double> confirmed() const { return number("confirmed"); }
  bool measured_again() const { return is_true("measured_again"); }
};

class GateDocument : public ComparedDocument {
 public:
  using ComparedDocument::ComparedDocument;
  /// PASS, REGRESSED or CANNOT TELL.
  std::string verdict_name() const { return text("verdict"); }
  bool has_passed() const { return verdict_name() == "PASS"; }
  int exit_code() const { return figure<int>("exit_code"); }
  std::string reason() const { return text("reason"); }
  std::string base() const { return text("base"); }
  std::string head() const { return text("head"); }
  std::string time_note() const { return reports::text(member("time"), "note"); }
  Stages stages() const { return member("stages"); }
  NameList vanished_as_expected() const { return list(json(), "vanished_as_expected"); }
};

// ---- A calibration

/// What a run keeps of a row of its gate.
class CalibrationRow : public Part {
 public:
  using Part::Part;
  std::string cell() const { return text("cell"); }
  /// As it stands there: null in files of Google Benchmark.
  const Json& arm() const { return member("arm"); }
  std::string metric() const { return text("metric"); }
  std::optional<double> detectable() const { return number("detectable"); }
  std::optional<Verdict> verdict() const { return named_verdict("verdict"); }
};

class CalibrationRun : public Part {
 public:
  using Part::Part;
  std::optional<double> exit_code() const { return number("exit_code"); }
  std::optional<double> flagged() const { return number("flagged"); }
  Parts<CalibrationRow> rows() const { return Parts<CalibrationRow>(list(json(), "rows")); }
  /// ln(head / base) of each process, by cell.
  const Json& log_ratios() const { return member("log_ratios"); }
};

/// The change that was put into the head.
class InjectionEntry : public Part {
 public:
  using Part::Part;
  /// As a fraction; `metric`: "time" or "instructions".
  std::optional<double> size(const std::string& metric) const { return reports::number(json(), metric); }
  bool hits(const CalibrationRow& row) const;
};

/// What all runs have in common.
class CalibrationDesign : public Part {
 public:
  using Part::Part;
  InjectionEntry injection() const { return member("injection"); }
  std::optional<double> processes() const { return number("processes"); }
};

class CellOfCalibration : public Computed {
 public:
  using Computed::Computed;
  std::string cell() const { return figure<std::string>("cell"); }
  std::optional<double> detectable() const { return number("detectable"); }
};

class ResampledSummary : public Computed {
 public:
  using Computed::Computed;
  int resamples() const { return figure<int>("resamples"); }
  double rate() const { return figure<double>("rate"); }
  double upper_95() const { return figure<double>("upper_95"); }
};

/// How often the injected change was found.
class PowerSummary : public Computed {
 public:
  using Computed::Computed;
  int rows() const { return figure<int>("rows"); }
  int claimed() const { return figure<int>("claimed"); }
  int caught() const { return figure<int>("caught"); }
  /// Only if any row claimed to detect it.
  double rate() const { return figure<double>("rate"); }
  double lower_95() const { return figure<double>("lower_95"); }
};

class CalibrationSummary : public Computed {
 public:
  using Computed::Computed;
  int runs() const { return figure<int>("runs"); }
  int alarms() const { return figure<int>("alarms"); }
  int cannot_tell() const { return figure<int>("cannot_tell"); }
  double rate() const { return figure<double>("rate"); }
  double upper_95() const { return figure<double>("upper_95"); }
  Parts<CellOfCalibration> cells() const { return Parts<CellOfCalibration>(json().at("cells")); }
  ResampledSummary resampled() const { return member("resampled"); }
  PowerSummary power() const { return member("power"); }
};

class CalibrationDocument : public Part {
 public:
  using Part::Part;
  std::string schema() const { return text("schema"); }
  const Json& environment() const { return member("environment"); }
  CalibrationDesign design() const { return member("design"); }
  /// Whether a change was put into the head.
  bool is_power_study() const { return static_cast<bool>(design().injection()); }
  Parts<CalibrationRun> runs() const { return Parts<CalibrationRun>(list(json(), "runs")); }
  CalibrationSummary summary() const { return member("summary"); }
  /// Whether it has all that a run is added to.
  bool is_whole() const;
};

}  // namespace diptych::reports
