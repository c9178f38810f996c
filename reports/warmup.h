#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

/// Does a series of calls settle? Levels by change points, classes after Barrett et al., "Virtual Machine Warmup Blows
/// Hot and Cold", OOPSLA 2017.
namespace diptych::reports {

/// Where the level of a series changes: indices of first values of new levels, ascending. Minimises
///   sum of squares about the level of each segment / noise^2 + 8 ln(n) per change
/// over all segmentations with segments of at least `shortest` values: the optimum that PELT also finds [Killick et al.
/// 2012], by dynamic programming, for a hundred values are few. The noise is that of first differences (1.4826 MAD /
/// sqrt 2), so level changes don't count as noise; values are drawn in to two and a half times it about a running
/// median as wide as twice the shortest segment, so a few slow calls are no level. `values`: logs of times, finite.
/// Noise below `noise_floor` counts as that (clocks tick).
std::vector<std::size_t> change_points(std::span<const double> values, std::size_t shortest = 5,
                                       double noise_floor = 0.005);

enum class WarmupClass { flat, warm_up, slowdown, no_steady_state };
const char* name_of(WarmupClass c);

struct Warmup {
  WarmupClass kind = WarmupClass::flat;
  std::size_t calls = 0;      ///< before the last level, the first call included; of rounds: all calls
  double steady_seconds = 0;  ///< per call: median of the last level
};

/// Classifies one process: `calls`, seconds of its calls after the first, one by one; `rounds`, seconds per call of its
/// rounds later on. The very first call is not among them: it compiles, and is reported as such. Levels that differ by
/// less than 2 % are one. Calls and rounds are timed differently (one call, a block between other arms), so the step
/// from one to the other doesn't count.
///   flat             one level
///   warm-up          the last level is the fastest, within 2 %
///   slowdown         an earlier one was faster
///   no-steady-state  the last level begins in the second half of the rounds or there are more than two in them;
///                    without rounds: it begins in the last quarter of the calls
/// Empty for fewer than eight calls. Times that are not positive and finite: Error.
std::optional<Warmup> classify_warmup(std::span<const double> calls, std::span<const double> rounds);

/// {"class", "processes", "steady_after_calls", "steady_seconds"} of an arm from processes[].arms[].warmup_seconds and
/// the rounds: the class that at least three quarters of the processes show, else "inconsistent"; how many processes
/// show which; medians over processes. null when no process recorded its first calls.
nlohmann::json warmup_of(const nlohmann::json& cell, const std::string& arm);

}  // namespace diptych::reports
