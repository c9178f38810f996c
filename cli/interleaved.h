#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "workloads/harness/runner.h"

/// Measures one or two programs in one job: process i of each cell runs side by side, ABBA over the processes.
namespace diptych::cli {

/// A program that can measure, and how it says that it was built.
struct Measurable {
  std::string program;
  nlohmann::json environment;          ///< its fingerprint
  std::vector<std::string> workloads;  ///< that it has
  std::vector<std::string> default_workloads;
  std::vector<std::string> arms;
  std::vector<std::string> default_arms;
};

/// Asks the program (`doctor --json`, `list --json`). Throws Error if it isn't a diptych that can answer.
Measurable describe_program(const std::string& program);

struct InterleavedSide {
  const Measurable* program = nullptr;
  workloads::RunPlan plan;  ///< what it measures: those of its workloads and arms that it has
};

/// One raw run of each side, analysed ("diptych.run/1"). `first_launch` > 0: fresh processes, other seeds and layouts.
/// Throws Error when a measuring process fails. An interrupted job gives what was measured.
std::vector<nlohmann::json> measure_interleaved(const std::vector<InterleavedSide>& sides, int first_launch,
                                                const std::function<void(const std::string&)>& progress,
                                                const std::atomic<bool>* stop);

}  // namespace diptych::cli
