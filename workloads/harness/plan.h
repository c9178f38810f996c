#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "workloads/harness/sizes.h"

/// What one run measures. It stands in run.json, so that the run can be continued and repeated.
namespace diptych::workloads {

/// A slowdown put in on purpose, to see a gate fail: fractions of a call's time and of its instructions.
struct Injection {
  double time = 0;
  double instructions = 0;
  std::vector<std::string> arms;  ///< which get it; empty: all but eager

  bool any() const { return time > 0 || instructions > 0; }
  bool hits(const std::string& arm) const;
};

/// Seconds that valgrind may take for one workload, where nobody says otherwise.
inline constexpr double kInstructionsTimeout = 600;

struct RunPlan {
  RunSize size;
  std::vector<std::string> workloads;
  std::vector<std::string> arms;
  bool default_arms = true;    ///< nobody named any
  std::string verb = "run";    ///< or "ladder"
  bool shuffle_order = false;  ///< of the ladder
  std::uint64_t seed = 1;
  /// Which of the memory layouts that `seed` gives the processes. What is compared has different ones: one and the same
  /// would be an unlikely accident between two programs.
  int layout = 0;
  std::vector<std::string> benchmark_options;
  std::vector<std::string> metrics = {"time"};       ///< of metric_names()
  std::vector<int> pinned;                           ///< CPUs of the measuring processes; empty: all
  std::map<std::string, std::string> external_arms;  ///< of the user's own: their commands
  Injection injection;
  int first_launch = 0;  ///< > 0: fresh processes, beyond those of an earlier measurement of the same seed
  double instructions_timeout = kInstructionsTimeout;

  bool measures(std::string_view metric) const;
};

/// time, exact, instructions. Exact metrics are counted in every run; naming them alone leaves the others out.
const std::vector<std::string>& metric_names();

/// The seeds of the measuring processes, and the bytes by which each one's environment is padded: from the plan alone,
/// so that a run that is continued has those of one that wasn't stopped.
struct Launch {
  std::uint64_t seed;         ///< of what is measured in which order
  std::uint64_t layout_seed;  ///< of its heap (heap_layout.h)
  std::size_t padding;        ///< moves its stack
};
std::vector<Launch> launches(const RunPlan& plan);

/// The member `plan` of run.json.
nlohmann::json to_json(const RunPlan& plan);

/// The plan of a run that was read back. Throws Error if it was written without one.
RunPlan plan_of(const nlohmann::json& run);

/// As one word of a shell.
std::string shell_quoted(const std::string& text);

/// The command that measures a workload of the plan in the same way.
std::string reproduce_command(const RunPlan& plan, const std::string& workload);

}  // namespace diptych::workloads
