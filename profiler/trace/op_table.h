#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "profiler/trace/trace.h"
#include "profiler/trace/tracer.h"

namespace diptych::profiler {

/// All zones of one (category, label). Times are in nanoseconds, as measured unless called corrected.
struct OpRow {
  std::string name;
  trace::Category category = trace::Category::user;
  std::uint64_t calls = 0;
  std::int64_t total_ns = 0;  ///< with children; a zone inside one of the same row isn't counted twice
  std::int64_t self_ns = 0;   ///< without children
  std::int64_t min_ns = 0;
  std::int64_t max_ns = 0;
  double mean_ns = 0.0;        ///< duration per call, with children
  double share_of_wall = 0.0;  ///< self_ns / wall_ns; the sum over rows can exceed 1 on several threads
  /// Minus the time that the profiler itself is estimated to have added. If negative, the op is below what the tracer
  /// can resolve.
  double corrected_total_ns = 0.0;
  double corrected_self_ns = 0.0;
};

struct OpTable {
  std::vector<OpRow> rows;  ///< by self time, longest first
  std::int64_t wall_ns = 0;
  std::int64_t covered_ns = 0;    ///< time in which at least one thread was inside a zone
  std::int64_t uncovered_ns = 0;  ///< wall_ns - covered_ns
  std::uint64_t zones = 0;
  std::uint64_t dropped = 0;
  std::size_t threads = 0;
  TracerOverhead overhead;           ///< used for the correction; zeros if none was given
  double estimated_overhead_ns = 0;  ///< zones x overhead.enabled_ns
};

/// Corrected self time = self - calls x inside - children x (enabled - inside): a zone contains the inner part of its
/// own cost, and the outer part of its children's.
OpTable op_table(const Trace& trace, const TracerOverhead& overhead = {});

nlohmann::json to_json(const OpTable& table);

/// Aligned columns; `max_rows` = 0 prints all rows.
std::string render(const OpTable& table, std::size_t max_rows = 0);

}  // namespace diptych::profiler
