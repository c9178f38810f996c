#pragma once

#include <string>
#include <vector>

#include "workloads/harness/cell/cell.h"
#include "workloads/harness/worker_plan.h"

/// One measuring process. Google Benchmark hosts it: cells are registered benchmarks with manual time, selected by its
/// filter, and its context goes into the run's environment. Results go to standard output, one JSON document per line:
///   {"event":"progress","workload":...,"what":...}
///   {"event":"context",...}
///   {"event":"cell","workload":...,"cell":...}
///   {"event":"error","workload":...,"message":...}
///   {"event":"done"}
namespace diptych::workloads {

/// The descriptor at which a process that takes turns finds its socket.
inline constexpr int kTurnsDescriptor = 3;
/// Writes one line of the protocol.
void emit_event(const nlohmann::json& event);

/// Returns the process's exit code. A cell that throws is reported, and the next one continues.
int run_worker(const WorkerPlan& plan);

}  // namespace diptych::workloads
