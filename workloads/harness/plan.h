#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "workloads/harness/cell/injection.h"
#include "workloads/harness/sizes.h"

/// What one run measures. It is kept in run.json, so that the run can be continued and repeated.
namespace diptych::workloads {

/// Seconds that valgrind may take for one workload, unless given.
inline constexpr double kInstructionsTimeout = 600;

struct RunPlan {
  RunSize size;
  std::vector<std::string> workloads;
  std::vector<std::string> arms;
  bool default_arms = true;    ///< none were named
  std::string verb = "run";    ///< or "ladder"
  bool shuffle_order = false;  ///< of the ladder
  std::uint64_t seed = 1;
  /// Which of the memory layouts derived from `seed` the processes have. Sides that are compared have different ones,
  /// because a shared layout would be an unlikely accident between two programs.
  int layout = 0;
  std::vector<std::string> benchmark_options;
  std::vector<std::string> metrics = {"time"};       ///< a subset of metric_names()
  std::vector<int> pinned;                           ///< CPUs of the measuring processes; empty: all
  std::map<std::string, std::string> external_arms;  ///< the user's own: their commands
  std::string gemm = "tiles";                        ///< what multiplies matrices: one of kernels::kGemmNames
  int threads = 1;                                   ///< on which a call computes (threads_of_other_arms)
  bool veto_losses = false;                          ///< CellSettings::veto_losses
  Injection injection;
  int first_launch = 0;  ///< > 0: fresh processes, beyond those of an earlier measurement of the same seed
  double instructions_timeout = kInstructionsTimeout;

  bool measures(std::string_view metric) const;
};

/// time, exact, instructions. Exact metrics are counted in every run; naming them alone leaves out the others.
const std::vector<std::string>& metric_names();

/// The seeds of the measuring processes, and the padding of each one's environment in bytes. They depend on the plan
/// alone, so that a run that is continued has the same ones as a run that wasn't stopped.
struct Launch {
  std::uint64_t seed;         ///< of the order of measurement
  std::uint64_t layout_seed;  ///< of its heap (heap_layout.h)
  std::size_t padding;        ///< moves its stack
};
std::vector<Launch> launches(const RunPlan& plan);

/// The member `plan` of run.json.
nlohmann::json to_json(const RunPlan& plan);

/// The plan of a run that was read from a file. Throws Error if it was written without one.
RunPlan plan_of(const nlohmann::json& run);

/// The text as one word of a shell.
std::string shell_quoted(const std::string& text);

/// The command that measures a workload of the plan in the same way.
std::string reproduce_command(const RunPlan& plan, const std::string& workload);

}  // namespace diptych::workloads
