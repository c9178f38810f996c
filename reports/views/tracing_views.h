#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reports/statistics/statistics.h"

/// What the profiler itself takes, measured with every profile (docs/profile.md#how-it-is-measured).
namespace diptych::reports {

/// Calls of one arm in turns, traced and not.
struct TracedCalls {
  std::string arm;
  double zones = 0;             ///< of a traced call
  double untraced_seconds = 0;  ///< of a call, the median of blocks of calls, like the next
  double traced_seconds = 0;
  /// By how much longer a call takes when it is traced, as a fraction: the median over pairs of blocks, and its sign
  /// interval.
  double change = 0;
  std::optional<Interval> interval = {};
  int every = 1;            ///< one call in so many is traced, and `traced_seconds` of a call is over all of them
  double zone_seconds = 0;  ///< what a zone takes in this arm; of an empty one if tracing adds little
};

struct TracingCost {
  double zone_seconds = 0;    ///< of an empty zone
  double spread_seconds = 0;  ///< its interquartile range
  std::vector<TracedCalls> arms;
};

/// Fills `change` and `interval` from seconds of pairs of blocks, traced and not.
void set_change(TracedCalls& calls, std::span<const double> traced, std::span<const double> untraced);
/// What a call takes with tracing, less the zones: the untraced one's time, if they cost what is said.
double corrected_seconds(const TracedCalls& calls);

/// A line for each arm: traced, untraced, corrected; and a warning where tracing certainly disturbs what it shows.
std::string tracing_text(const TracingCost& cost);
/// `tracing` of ops.json.
nlohmann::json tracing_json(const TracingCost& cost);

}  // namespace diptych::reports
