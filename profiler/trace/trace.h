#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/trace_points.h"
#include "profiler/trace/clock.h"

namespace diptych::profiler {

/// "op", "kernel", "autograd", "graph", "pass", "memory", "user"
std::string_view to_string(trace::Category category) noexcept;

/// The recording of a Tracer: a self-contained value that outlives the tracer and the labels. All times are nanoseconds
/// since the trace began.
struct Trace {
  static constexpr std::int32_t no_parent = -1;

  struct Thread {
    std::uint32_t tid = 0;  ///< the kernel's thread id
    std::string name;
    std::uint64_t dropped = 0;  ///< records for which there was no room
  };
  struct Label {
    std::string name;
    trace::Category category = trace::Category::user;
  };
  struct Zone {
    std::uint32_t thread = 0;  ///< index into `threads`
    std::uint32_t label = 0;   ///< index into `labels`
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;  ///< never before begin_ns, never after the parent's end_ns
    std::uint64_t source_op = 0;
    std::int32_t parent = no_parent;  ///< index into `zones`
    std::uint32_t depth = 0;

    [[nodiscard]] std::int64_t duration_ns() const noexcept { return end_ns - begin_ns; }
  };
  struct Counter {
    std::uint32_t thread = 0;
    std::uint32_t label = 0;
    std::int64_t time_ns = 0;
    std::int64_t value = 0;
  };
  struct Clock {
    ClockFigures figures;
    double ns_per_tick = 1.0;
    double drift_ppm = 0.0;  ///< between the calibrations at the start and at the end
  };

  std::uint32_t pid = 0;
  std::int64_t start_unix_ns = 0;  ///< the wall-clock time at which the trace began
  std::int64_t duration_ns = 0;    ///< from start to stop
  Clock clock;
  std::vector<Thread> threads;
  std::vector<Label> labels;
  std::vector<Zone> zones;        ///< thread by thread, each parent before its children
  std::vector<Counter> counters;  ///< thread by thread, in order of time
  std::uint64_t dropped = 0;      ///< records lost to the limits on memory or depth
  std::uint64_t unclosed = 0;     ///< zones still open at stop, given the stop time as their end
  std::uint64_t repaired = 0;     ///< zones whose end was missing or out of order, given the nearest valid end

  [[nodiscard]] const Label& label_of(const Zone& zone) const { return labels[zone.label]; }
  [[nodiscard]] const Label& label_of(const Counter& counter) const { return labels[counter.label]; }
};

}  // namespace diptych::profiler
