#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "reports/run/run.h"

/// Whether a series of calls settles. Levels are found by change points; the classes follow Barrett et al., "Virtual
/// Machine Warmup Blows Hot and Cold", OOPSLA 2017.
namespace diptych::reports {

enum class WarmupClass { flat, warm_up, slowdown, no_steady_state };
const char* name_of(WarmupClass c);

struct Warmup {
  WarmupClass kind = WarmupClass::flat;
  std::size_t calls = 0;      ///< before the last level, including the first call; all calls if it is a level of rounds
  double steady_seconds = 0;  ///< per call: median of the last level
};

/// Classifies one process. `calls`: the seconds of each call after the first; `rounds`: seconds per call of its later
/// rounds. The very first call is excluded: it compiles, and is reported separately. Levels that differ by less than
/// 2 % are one. Calls and rounds are timed differently (one call, a block between other arms), so the step from one to
/// the other doesn't count.
///   flat             one level
///   warm-up          the last level is the fastest, within 2 %
///   slowdown         an earlier one was faster
///   no-steady-state  the last level begins in the second half of the rounds, or they have more than two levels;
///                    without rounds: it begins in the last quarter of the calls
/// Empty for fewer than eight calls. Throws Error for times that are not positive and finite.
std::optional<Warmup> classify_warmup(std::span<const double> calls, std::span<const double> rounds);

/// {"class", "processes", "steady_after_calls", "steady_seconds"} of an arm from the processes' arms[].warmup_seconds
/// and their rounds: the class of at least three quarters of the processes, otherwise "inconsistent"; the number of
/// processes of each class; medians over processes. null if no process recorded its first calls.
nlohmann::json warmup_of(std::span<const Process> all, const std::string& arm);

}  // namespace diptych::reports
