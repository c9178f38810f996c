#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "workloads/harness/plan.h"

/// Instructions of a steady call, counted by valgrind's callgrind: they repeat almost exactly, on a loaded machine too.
/// Its virtual CPU knows AVX2 at most, so both modes use those kernels; such counts aren't comparable with native ones.
namespace diptych::workloads {

/// Calls that are counted together, after as many that warm up (the first compiles).
inline constexpr std::int64_t kCountedCalls = 3;

/// The counting process: runs the arms one after the other, each one's calls inside one call of
/// `diptych_counted_calls`, which callgrind is told to watch, and says on standard output which:
///   {"event":"counted","arm":...,"isa":...}   {"event":"error","message":...}   {"event":"done"}
/// `extra`: arm -> instructions that each call executes on top. Returns the exit code.
int run_counting_worker(const std::string& workload, const std::vector<std::string>& arms, std::uint64_t seed,
                        const std::map<std::string, std::int64_t>& extra);

/// Executes `count` instructions, or one more: a loop of two.
void execute_instructions(std::int64_t count);

struct CountingPlan {
  std::string workload;
  std::vector<std::string> arms;
  std::uint64_t seed = 1;
  Injection injection;
  double timeout = kInstructionsTimeout;  ///< seconds, of each start of valgrind
  /// The program to run; empty: looked for in PATH.
  std::string valgrind = {};
  const std::atomic<bool>* stop = nullptr;
};

/// Arm -> {"value": instructions a call, "isa", "calls", "tool"}, or {"value": null, "reason"} for every arm where
/// valgrind is missing, fails or takes too long. Empty when stopped. `worker_command` starts a worker. The environment
/// is fixed, so that its size moves nothing. Throws nothing for what a machine lacks.
std::map<std::string, nlohmann::json> count_instructions(const CountingPlan& plan,
                                                         const std::vector<std::string>& worker_command);

/// The total of a callgrind file: "summary: 30075". Throws Error if there is none.
std::int64_t callgrind_total(const std::string& text);

}  // namespace diptych::workloads
