#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "workloads/harness/runner.h"

/// Measures one or two programs in one job: process i of each cell runs side by side, ABBA over the processes. If both
/// programs support it, the two processes take turns round by round (workloads/harness/cell/turns.h).
namespace diptych::cli {

/// A program that can measure, and what it says about its build.
struct Measurable {
  std::string program;
  nlohmann::json environment;          ///< its fingerprint
  int protocol = 1;                    ///< of its measuring processes (workloads/harness/worker.h)
  std::vector<std::string> workloads;  ///< those that it has
  std::vector<std::string> default_workloads;
  std::vector<std::string> arms;
  std::vector<std::string> default_arms;

  /// One of its own workloads, or a model's file, which programs read from protocol 4 on.
  bool has_workload(const std::string& name) const;
};

/// Asks the program (`doctor --json`, `list --json`). Throws Error if it isn't a diptych that can answer, or if its
/// measuring processes speak a newer protocol.
Measurable describe_program(const std::string& program);

struct InterleavedSide {
  const Measurable* program = nullptr;
  workloads::RunPlan plan;  ///< what to measure: the workloads and arms that it has
};

struct InterleavedHooks {
  std::function<void(const std::string&)> progress;
  /// After each workload: the runs so far, with status "partial".
  std::function<void(const std::vector<nlohmann::json>&)> measured;
  const std::atomic<bool>* stop = nullptr;
};

struct InterleavedRuns {
  std::vector<nlohmann::json> runs;  ///< one of each side ("diptych.run/1")
  bool interrupted = false;
  std::string problem;  ///< of the first measuring process that failed, which ended the job; empty if none
};

/// Returns one run of each side. `first_launch` > 0: fresh processes, with other seeds and layouts. The runs include
/// what was measured before an interruption or a failure.
InterleavedRuns measure_interleaved(const std::vector<InterleavedSide>& sides, int first_launch,
                                    const InterleavedHooks& hooks);

}  // namespace diptych::cli
