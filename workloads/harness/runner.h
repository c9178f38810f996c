#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "workloads/harness/plan.h"
#include "workloads/harness/turns.h"

/// The parent of a run: starts the measuring processes one after the other, each with an environment of random size
/// (the layout of a process shifts its timings), and gathers their cells into one raw run.
namespace diptych::workloads {

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
  /// The measuring process takes turns with one of another run. For runs that need a single one.
  TurnSocket* turns = nullptr;
  bool is_first = false;
};

struct RunResult {
  nlohmann::json cells = nlohmann::json::array();  ///< raw cells of run.json
  nlohmann::json context;                          ///< Google Benchmark's
  bool interrupted = false;
  std::vector<std::string> problems;  ///< of processes that died or cells that threw
};

/// `worker_command` starts a worker: the program and its first arguments; the plan's are appended. `cells`: what an
/// earlier run of the same plan measured. Only what they lack is measured: each pair of a cell and a process (known by
/// its seed), and the counts of instructions.
RunResult run_processes(const RunPlan& plan, const std::vector<std::string>& worker_command, const RunHooks& hooks,
                        nlohmann::json cells = nlohmann::json::array());

}  // namespace diptych::workloads
