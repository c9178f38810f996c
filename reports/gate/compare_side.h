#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/analysis/verdict.h"
#include "reports/gate/method.h"

/// One side of a comparison: the content of a run file of Diptych or of Google Benchmark, reduced to independent
/// samples.
namespace diptych::reports {

/// A workload under an arm; in Google Benchmark's files a benchmark, with an empty arm.
struct Subject {
  std::string workload, arm;
  std::vector<double> log_seconds;  ///< of the median round, one value per process (or repetition)
  /// Seconds of each round of those processes; empty for processes that took no turns with one of the other side.
  std::vector<std::vector<double>> turns;
  std::vector<double> log_speedups;  ///< over eager in the same process; empty for eager itself
  /// Seconds: the median over repetitions, or else their mean, where a file has such statistics alone.
  std::optional<double> aggregate;
  std::map<std::string, std::optional<double>> exact;
  bool counted = false;                                ///< whether instructions were asked for
  std::optional<double> instructions;                  ///< per call
  std::string instruction_set;                         ///< that the kernels used while they were counted
  std::string not_counted;                             ///< why there is no count
  std::map<std::string, std::optional<double>> usage;  ///< advisory: of usage_metrics()
  std::vector<std::string> after;  ///< what its processes had measured before, which adds to their resident memory
  CellState state;
  Method method = {};  ///< besides the run's

  /// "workload/arm": the name in both formats.
  std::string key() const { return arm.empty() ? workload : workload + "/" + arm; }
};

struct Side {
  std::string format;  ///< "diptych" or "google-benchmark"
  nlohmann::json environment = nlohmann::json::object();
  Method method = {};
  nlohmann::json about;  ///< name, created, status, size, as far as they are known
  std::vector<Subject> subjects;
};

/// The subjects by key; of equal keys the first.
std::map<std::string, const Subject*> by_key(const Side& side);

/// The figure of that metric; empty if there is none.
std::optional<double> figure_of(const std::map<std::string, std::optional<double>>& figures, const std::string& metric);

/// ln(head / base) of each pair of processes: for pairs that took turns, the median over the rounds of the ratio of two
/// adjacent rounds; otherwise the ratio of their median rounds.
std::vector<double> paired_log_ratios(const Subject& base, const Subject& head);

/// Throws Error, naming the benchmark or cell, for times that are zero, negative or not finite, for unknown units, and
/// for documents in neither format.
Side read_side(const nlohmann::json& document);

}  // namespace diptych::reports
