#include "profiler/trace/split_steps.h"

#include <algorithm>
#include <optional>

namespace diptych::profiler {

std::vector<std::size_t> steps_of(const Trace& trace) {
  std::vector<std::size_t> steps;
  for (std::size_t i = 0; i < trace.zones.size(); ++i) {
    const Trace::Zone& zone = trace.zones[i];
    if (zone.parent == Trace::no_parent && trace.label_of(zone).category == trace::Category::user) {
      steps.push_back(i);
    }
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [&](std::size_t a, std::size_t b) { return trace.zones[a].begin_ns < trace.zones[b].begin_ns; });
  return steps;
}

std::vector<Trace> split_steps(const Trace& trace, std::span<const std::size_t> owner, std::size_t programs) {
  const std::vector<std::size_t> steps = steps_of(trace);
  const auto program_at = [&](std::int64_t time) -> std::optional<std::size_t> {
    const auto after = std::partition_point(steps.begin(), steps.end(),
                                            [&](std::size_t step) { return trace.zones[step].begin_ns <= time; });
    const auto index = static_cast<std::size_t>(after - steps.begin());
    if (index == 0 || index > owner.size() || trace.zones[steps[index - 1]].end_ns < time) {
      return std::nullopt;
    }
    return owner[index - 1];
  };
  std::vector<Trace> result(programs);
  for (Trace& each : result) {
    each = trace;
    each.zones.clear();
    each.counters.clear();
  }
  std::vector<std::int32_t> moved(trace.zones.size(), Trace::no_parent);
  for (std::size_t i = 0; i < trace.zones.size(); ++i) {
    const std::optional<std::size_t> program = program_at(trace.zones[i].begin_ns);
    if (!program) {
      continue;
    }
    std::vector<Trace::Zone>& zones = result[*program].zones;
    moved[i] = static_cast<std::int32_t>(zones.size());
    zones.push_back(trace.zones[i]);
    if (const std::int32_t parent = trace.zones[i].parent; parent != Trace::no_parent) {
      zones.back().parent = moved[static_cast<std::size_t>(parent)];
    }
  }
  for (const Trace::Counter& counter : trace.counters) {
    if (const std::optional<std::size_t> program = program_at(counter.time_ns)) {
      result[*program].counters.push_back(counter);
    }
  }
  return result;
}

}  // namespace diptych::profiler
