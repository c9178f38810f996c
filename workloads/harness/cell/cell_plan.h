#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "profiler/counters/system_calls.h"
#include "profiler/machine/system_files.h"
#include "workloads/arms/arm.h"
#include "workloads/harness/cell/cell_settings.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {

class Turns;

struct CellPlan {
  const Workload* workload = nullptr;
  std::vector<const Arm*> arms = {};
  CellSettings settings = {};
  /// Whether to compare all steps of the check and take the metrics, or to check only the first call of each arm (later
  /// processes).
  bool full_check = true;
  /// The fused kernels that the first process has found to lose (PipelineOptions::vetoed).
  std::set<graph::ValueId> vetoed = {};
  std::vector<std::string> after = {};  ///< workloads that this process has measured before
  Turns* turns = nullptr;               ///< with another process; null if this one is alone
  Clock clock = steady_seconds;
  profiler::SystemFiles files = profiler::SystemFiles();         ///< where /proc is
  profiler::SystemCalls system = profiler::SystemCalls::real();  ///< for the hardware counters
};

/// Reports what is being done, for a progress line.
using Progress = std::function<void(const std::string& what)>;

}  // namespace diptych::workloads
