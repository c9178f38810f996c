#pragma once

#include <cstdint>
#include <optional>
#include <span>

/// What is counted of a call and repeats exactly. A new metric is a member and a line of the table;
/// workloads/arms/arm.cpp counts it, and run.json, the views and the gate have it.
namespace diptych::runtime {

/// Of one steady call. Empty: not counted, or there is no such thing in the arm.
struct ExactMetrics {
  using Count = std::optional<std::int64_t>;

  Count nodes;               ///< of the compiled graph
  Count dispatches;          ///< ops in eager, kernel launches in a graph
  Count allocations;         ///< blocks from the engine's allocator
  Count peak_bytes;          ///< the most that the call had in use at one time, in size classes
  Count planned_peak_bytes;  ///< the arena's
  Count lower_bound_bytes;   ///< the most bytes of temporaries that live at one time
};

struct ExactMetric {
  const char* name;  ///< of the member of `exact` in run.json
  bool is_bytes;
  const char* title;   ///< in the report
  const char* column;  ///< in the terminal's table; null: it has none
  bool is_judged;      ///< more of it is a regression
  bool is_reason;      ///< a change of it says why an arm is faster
  ExactMetrics::Count ExactMetrics::*count;
};
std::span<const ExactMetric> exact_metrics();

}  // namespace diptych::runtime
