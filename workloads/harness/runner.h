#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "workloads/harness/cell/turns.h"
#include "workloads/harness/plan.h"
#include "workloads/harness/worker_plan.h"

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
  std::optional<double> seconds_left;  ///< for the timed processes; null until the first has shown what cells take
};

struct RunHooks {
  std::function<void(const RunProgress&)> progress;
  /// After each cell, with all cells so far.
  std::function<void(const nlohmann::json& cells)> cell_done;
  /// Set (by a signal handler) to stop: the run ends with what was measured.
  const std::atomic<bool>* stop = nullptr;
  /// For a measuring process that takes turns with one of another run. Only for runs that need a single process.
  TurnSocket* turns = nullptr;
  bool is_first = false;
  int protocol = kWorkerProtocol;  ///< that the workers speak
};

struct RunResult {
  nlohmann::json cells = nlohmann::json::array();  ///< raw cells of run.json
  nlohmann::json context;                          ///< Google Benchmark's
  bool interrupted = false;
  std::vector<std::string> problems;  ///< from processes that died or cells that threw
};

/// `worker_command` starts a worker: the program and its first arguments, to which the plan's are appended. `cells`:
/// what an earlier run of the same plan measured. Only what is missing from these is measured: pairs of a cell and a
/// process (identified by its seed), and counts of instructions.
RunResult run_processes(const RunPlan& plan, const std::vector<std::string>& worker_command, const RunHooks& hooks,
                        nlohmann::json cells = nlohmann::json::array());

}  // namespace diptych::workloads
