#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "workloads/harness/sizes.h"

/// The parent of a run: starts the measuring processes one after the other, each with an environment of random size
/// (the layout of a process shifts its timings), and gathers their cells into one raw run.
namespace diptych::workloads {

struct RunPlan {
  RunSize size;
  std::vector<std::string> workloads;
  std::vector<std::string> arms;
  std::uint64_t seed = 1;
  std::vector<std::string> benchmark_options;
  /// The launches before this one ran elsewhere (interleaved with those of another program): they are skipped, and the
  /// whole check with them.
  int first_process = 0;
};

struct RunProgress {
  int process = 0;  ///< from 1
  int processes = 0;
  std::size_t cell = 0;  ///< from 1
  std::size_t cells = 0;
  std::string workload;
  std::string what;
};

struct RunHooks {
  std::function<void(const RunProgress&)> progress;
  /// After each cell, with what there is so far.
  std::function<void(const nlohmann::json& cells)> cell_done;
  /// Set (by a signal handler) to stop: the run ends with what was measured.
  const std::atomic<bool>* stop = nullptr;
};

struct RunResult {
  nlohmann::json cells = nlohmann::json::array();  ///< raw cells of run.json
  nlohmann::json context;                          ///< Google Benchmark's
  bool interrupted = false;
  std::vector<std::string> problems;  ///< of processes that died or cells that threw
};

/// `worker_command` starts a worker: the program and its first arguments; the plan's are appended.
RunResult run_processes(const RunPlan& plan, const std::vector<std::string>& worker_command, const RunHooks& hooks);

}  // namespace diptych::workloads
