#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "workloads/harness/plan.h"
#include "workloads/harness/worker_plan.h"

/// Instructions of a steady call, counted by valgrind's callgrind: they repeat almost exactly, even on a loaded
/// machine. Its virtual CPU supports AVX2 at most, so both modes use those kernels; such counts aren't comparable with
/// native ones.
namespace diptych::workloads {

/// Calls that are counted together, after the same number of warm-up calls (the first compiles).
inline constexpr std::int64_t kCountedCalls = 3;

/// The counting process. It runs the arms one after the other, the calls of each inside one call of
/// `diptych_counted_calls`, which callgrind is told to watch, and reports each arm on standard output:
///   {"event":"counted","arm":...,"isa":...}
///   {"event":"error","message":...}
///   {"event":"done"}
/// `extra`: arm -> instructions that each call executes in addition. Returns the exit code.
int run_counting_worker(const std::string& workload, const std::vector<std::string>& arms, std::uint64_t seed,
                        const std::map<std::string, std::int64_t>& extra);

/// Executes `count` instructions, or one more, in a loop of two.
void execute_instructions(std::int64_t count);

struct CountingPlan {
  std::string workload;
  std::vector<std::string> arms;
  std::uint64_t seed = 1;
  std::string gemm = {};  ///< WorkerPlan::gemm
  Injection injection;
  int protocol = kWorkerProtocol;         ///< that the worker speaks
  double timeout = kInstructionsTimeout;  ///< seconds, for each start of valgrind
  /// The program to run; if empty, valgrind is looked up in PATH.
  std::string valgrind = {};
  const std::atomic<bool>* stop = nullptr;
};

/// Arm -> {"value": instructions per call, "isa", "calls", "tool"}, or {"value": null, "reason"} for every arm if
/// valgrind is missing, fails or takes too long. Empty if stopped. `worker_command` starts a worker. The environment is
/// fixed, so that its size has no effect. Doesn't throw for what a machine lacks.
std::map<std::string, nlohmann::json> count_instructions(const CountingPlan& plan,
                                                         const std::vector<std::string>& worker_command);

/// The total of a callgrind file: "summary: 30075". Throws Error if there is none.
std::int64_t callgrind_total(const std::string& text);

}  // namespace diptych::workloads
