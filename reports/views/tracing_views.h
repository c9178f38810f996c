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
  double zones = 0;             ///< of a call
  double untraced_seconds = 0;  ///< of a call, the median of blocks of calls, like the next
  double traced_seconds = 0;
  /// By how much longer a call takes when it is traced, as a fraction: the median over pairs of blocks, and its sign
  /// interval.
  double change = 0;
  std::optional<Interval> interval = {};
};

struct TracingCost {
  double zone_seconds = 0;    ///< of an empty zone
  double spread_seconds = 0;  ///< its interquartile range
  std::vector<TracedCalls> arms;
};

/// Fills `change` and `interval` from seconds of pairs of blocks, traced and not.
void set_change(TracedCalls& calls, std::span<const double> traced, std::span<const double> untraced);
/// What a traced call takes without its zones: the untraced one's time, if a zone costs there what an empty one does.
double corrected_seconds(const TracingCost& cost, const TracedCalls& calls);

/// A line for each arm: traced, untraced, corrected; and a warning where tracing certainly disturbs what it shows.
std::string tracing_text(const TracingCost& cost);
/// `tracing` of ops.json.
nlohmann::json tracing_json(const TracingCost& cost);

}  // namespace diptych::reports
