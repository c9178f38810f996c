#pragma once

#include <cstddef>
#include <memory>

#include "profiler/trace/trace.h"

namespace diptych::profiler {

struct TracerOptions {
  /// For all threads together; one zone or counter sample takes 32 bytes. Rounded up to 64 KiB. Records beyond the
  /// limit are dropped and counted.
  std::size_t max_bytes = std::size_t{64} << 20U;
  bool counters = true;  ///< false: zones alone
};

/// Records the framework's trace points.
///
///     Tracer tracer;
///     tracer.start();
///     step(model, batch);
///     Trace trace = tracer.stop();
///
/// One tracer is active at a time. Start and stop between ops; if a thread is inside a zone at stop(), that is safe,
/// and the zone is closed at the stop time. Source-op ids are kept to 48 bits, nesting to 512 zones.
class Tracer {
 public:
  explicit Tracer(TracerOptions options = {}) noexcept;
  /// Stops and discards what was recorded.
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  /// Reserves the memory, calibrates the clock, then installs the hooks.
  /// Throws Error if a tracer is active already, or if there is no memory.
  void start();
  /// Uninstalls the hooks and returns the trace. Throws Error if not started.
  Trace stop();
  /// Between calls of an active tracer that aren't to be recorded; what they take is then what they take without one.
  void pause() noexcept;
  void resume() noexcept;
  [[nodiscard]] bool active() const noexcept { return session_ != nullptr; }

 private:
  TracerOptions options_;
  std::shared_ptr<class TraceSession> session_;
};

/// The cost of tracing itself on this machine, in nanoseconds per zone: medians over interleaved batches.
struct TracerOverhead {
  double enabled_ns = 0.0;   ///< an empty zone, tracing on
  double nested_ns = 0.0;    ///< per zone, in a nest of eight
  double disabled_ns = 0.0;  ///< an empty zone with the trace points compiled in and no tracer
  double inside_ns = 0.0;    ///< the part of enabled_ns that lies between a zone's own two time stamps
  double spread_ns = 0.0;    ///< interquartile range of enabled_ns over the batches
};

/// Takes about 20 ms. Throws Error if a tracer is active.
TracerOverhead measure_overhead();

}  // namespace diptych::profiler
