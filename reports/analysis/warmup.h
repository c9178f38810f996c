#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "reports/run/run.h"

/// Whether a series of calls settles. Levels are found by change points; the classes follow Barrett et al., "Virtual
/// Machine Warmup Blows Hot and Cold", OOPSLA 2017.
namespace diptych::reports {

/// The points where the level of a series changes: indices of the first values of new levels, ascending. Minimises
///   sum of squares about the level of each segment / noise^2 + 8 ln(n) per change
/// over all segmentations with segments of at least `shortest` values: the optimum that PELT also finds [Killick et al.
/// 2012], here by dynamic programming, because there are only about a hundred values. The noise is that of first
/// differences (1.4826 MAD / sqrt 2), so level changes don't count as noise; values are clamped to two and a half times
/// the noise about a running median as wide as twice the shortest segment, so a few slow calls don't make a level.
/// `values`: logs of times, finite. A noise below `noise_floor` is raised to it, because clocks tick.
std::vector<std::size_t> change_points(std::span<const double> values, std::size_t shortest = 5,
                                       double noise_floor = 0.005);

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

/// {"class", "processes", "steady_after_calls", "steady_seconds"} of an arm from processes[].arms[].warmup_seconds and
/// the rounds: the class of at least three quarters of the processes, otherwise "inconsistent"; the number of processes
/// of each class; medians over processes. null if no process recorded its first calls.
nlohmann::json warmup_of(const Cell& cell, const std::string& arm);

}  // namespace diptych::reports
