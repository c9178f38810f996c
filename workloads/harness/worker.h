#pragma once

#include <string>
#include <vector>

#include "workloads/harness/cell.h"

/// One measuring process. Google Benchmark hosts it: cells are registered benchmarks with manual time, chosen by its
/// filter, and its context goes into the run's environment. Results go to standard output, one JSON document a line:
///   {"event":"progress","workload":...,"what":...}   {"event":"context",...}
///   {"event":"cell","workload":...,"cell":...}
///   {"event":"error","workload":...,"message":...}   {"event":"done"}
namespace diptych::workloads {

/// Of the flags and events above. One more whenever a worker of before would not understand, or not be understood; a
/// gate measures only programs that speak its own. `list --json` says it.
inline constexpr int kWorkerProtocol = 4;
/// From this one on, two processes can take turns (turns.h).
inline constexpr int kTurnsProtocol = 3;
/// Where a process that takes turns finds its socket.
inline constexpr int kTurnsDescriptor = 3;
/// Where it finds its layout seed: in the environment, which a worker of before doesn't mind.
inline constexpr const char* kLayoutSeedVariable = "DIPTYCH_LAYOUT_SEED";

struct WorkerPlan {
  std::vector<std::string> workloads;
  std::vector<std::string> arms;
  std::vector<std::string> without;  ///< "WORKLOAD=ARM": external arms that have failed there in an earlier process
  std::uint64_t seed = 1;
  std::uint64_t process_seed = 1;
  std::uint64_t layout_seed = 1;
  int rounds = 1;
  double block_seconds = 0.02;
  std::vector<std::string> first_call_check;  ///< workloads that an earlier process has checked in full
  std::vector<int> pinned;                    ///< CPUs; empty: all
  Injection injection;
  bool takes_turns = false;
  bool is_first = false;                       ///< of the two
  std::vector<std::string> benchmark_options;  ///< passed on to Google Benchmark, "--benchmark_..."
};

/// Writes one line of the protocol.
void emit_event(const nlohmann::json& event);

/// Returns the process's exit code. A cell that throws is reported and the next one goes on.
int run_worker(const WorkerPlan& plan);

}  // namespace diptych::workloads
