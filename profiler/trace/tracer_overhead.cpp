#include <algorithm>
#include <cmath>
#include <vector>

#include "framework/core/error.h"
#include "profiler/trace/tracer.h"

namespace diptych::profiler {

namespace {

constexpr trace::Label empty_label{"empty", trace::Category::user};
constexpr trace::Label nested_label{"nested", trace::Category::user};
constexpr int zones_per_batch = 2000;
constexpr int nest_depth = 8;
constexpr int batches = 31;

/// Keeps the optimiser from removing or merging the measured code.
inline void fence() { asm volatile("" ::: "memory"); }

/// noinline: the batches must run the same code with tracing on and off.
[[gnu::noinline]] void flat_zones() {
  for (int i = 0; i < zones_per_batch; ++i) {
    const trace::Zone zone(&empty_label, 1);
    fence();
  }
}

[[gnu::noinline]] void nest(int depth) {
  const trace::Zone zone(&nested_label, 1);
  fence();
  if (depth > 1) {
    nest(depth - 1);
  }
  fence();
}

[[gnu::noinline]] void nested_zones() {
  for (int i = 0; i < zones_per_batch / nest_depth; ++i) {
    nest(nest_depth);
  }
}

[[gnu::noinline]] void no_zones() {
  for (int i = 0; i < zones_per_batch; ++i) {
    fence();
  }
}

template <typename Body>
double ticks_per_zone(const Body& body) {
  const std::uint64_t begin = ticks();
  body();
  return static_cast<double>(ticks() - begin) / zones_per_batch;
}

double quantile(std::vector<double>& values, double q) {
  const auto index = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[static_cast<std::size_t>(index)];
}

/// The mean without the slowest tenth: finer than the clock's step, and insensitive to interrupts.
double typical_duration_ns(const Trace& trace) {
  std::vector<double> durations;
  for (const Trace::Zone& zone : trace.zones) {
    if (trace.label_of(zone).name == empty_label.name) {
      durations.push_back(static_cast<double>(zone.duration_ns()));
    }
  }
  if (durations.empty()) {
    return 0.0;  // trace points are compiled out
  }
  std::sort(durations.begin(), durations.end());
  durations.resize(std::max<std::size_t>(1, durations.size() * 9 / 10));
  double sum = 0.0;
  for (const double duration : durations) {
    sum += duration;
  }
  return sum / static_cast<double>(durations.size());
}

}  // namespace

TracerOverhead measure_overhead() {
  if (trace::hooks() != nullptr) {
    throw Error("measure_overhead: a tracer is active; stop it first");
  }
  Tracer tracer({.max_bytes = std::size_t{8} << 20U});
  tracer.start();
  const trace::Hooks* hooks = trace::hooks();
  std::vector<double> enabled;
  std::vector<double> nested;
  std::vector<double> disabled;
  for (int batch = 0; batch < batches; ++batch) {
    trace::install(nullptr);
    const double loop = ticks_per_zone(no_zones);
    disabled.push_back(ticks_per_zone(flat_zones) - loop);
    trace::install(hooks);
    enabled.push_back(ticks_per_zone(flat_zones) - loop);
    nested.push_back(ticks_per_zone(nested_zones) - loop);
  }
  const Trace trace = tracer.stop();

  const double scale = trace.clock.ns_per_tick;
  TracerOverhead result;
  result.spread_ns = (quantile(enabled, 0.75) - quantile(enabled, 0.25)) * scale;
  result.enabled_ns = quantile(enabled, 0.5) * scale;
  result.nested_ns = quantile(nested, 0.5) * scale;
  result.disabled_ns = quantile(disabled, 0.5) * scale;
  result.inside_ns = typical_duration_ns(trace);
  return result;
}

}  // namespace diptych::profiler
