#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "profiler/counters/system_calls.h"
#include "profiler/machine/system_files.h"
#include "workloads/arms/arm.h"
#include "workloads/harness/cell/injection.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {

class Turns;

struct CellPlan {
  const Workload* workload = nullptr;
  std::vector<const Arm*> arms = {};
  std::uint64_t seed = 1;          ///< of the inputs and the model: the same in every process
  std::uint64_t process_seed = 1;  ///< of the order of the arms in each round
  std::uint64_t layout_seed = 1;   ///< of the heap layout
  int rounds = 1;                  ///< 0: check and count, time nothing
  double block_seconds = 0.02;
  /// Whether to compare all steps of the check and take the metrics, or to check only the first call of each arm (later
  /// processes).
  bool full_check = true;
  Injection injection = {};
  std::vector<std::string> after = {};  ///< workloads that this process has measured before
  Turns* turns = nullptr;               ///< with another process; null if this one is alone
  Clock clock = steady_seconds;
  profiler::SystemFiles files = profiler::SystemFiles();         ///< where /proc is
  profiler::SystemCalls system = profiler::SystemCalls::real();  ///< for the hardware counters
};

/// Reports what is being done, for a progress line.
using Progress = std::function<void(const std::string& what)>;

}  // namespace diptych::workloads
