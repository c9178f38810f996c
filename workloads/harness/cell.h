#pragma once

#include <functional>

#include <nlohmann/json.hpp>

#include "profiler/system_calls.h"
#include "profiler/system_files.h"
#include "workloads/arms/arm.h"
#include "workloads/harness/plan.h"
#include "workloads/harness/timing.h"

/// One cell (a workload under several arms) in one process: check, then rounds.
namespace diptych::workloads {

class Turns;

struct CellPlan {
  const Workload* workload;
  std::vector<const Arm*> arms;
  std::uint64_t seed;          ///< of the inputs and the model: the same in every process
  std::uint64_t process_seed;  ///< of the order of the arms in each round
  std::uint64_t layout_seed;   ///< of where things lie on the heap
  int rounds;                  ///< 0: check and count, time nothing
  double block_seconds;
  /// Compare all steps of the check and take the metrics, or only the first call of each arm (later processes).
  bool full_check;
  Injection injection = {};
  std::vector<std::string> after = {};  ///< workloads that this process has measured before
  Turns* turns = nullptr;               ///< with another process; null: this one is alone
  Clock clock = steady_seconds;
  profiler::SystemFiles files = profiler::SystemFiles();         ///< where /proc stands
  profiler::SystemCalls system = profiler::SystemCalls::real();  ///< of the hardware counters
};

/// Names what is going on, for a progress line.
using Progress = std::function<void(const std::string& what)>;

/// An arm's entry in the cell's `arms` with nothing counted yet.
nlohmann::json uncounted(const Arm& arm);

/// The cell's part of run.json, raw: `validity`, `metrics`, `arms` (exact metrics, passes) and one element of
/// `processes`, none without rounds. Arms that disagree are not timed. Throws what the program throws, and Error for a
/// clock that steps.
nlohmann::json measure_cell(const CellPlan& plan, const Progress& progress);

}  // namespace diptych::workloads
