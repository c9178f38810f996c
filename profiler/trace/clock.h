#pragma once

#include <cstdint>
#include <string_view>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/// The tracer's clock: cheap enough to read twice per op, and convertible to nanoseconds afterwards.
namespace diptych::profiler {

/// `tsc`: the processor's invariant time-stamp counter. `monotonic_raw`: clock_gettime(CLOCK_MONOTONIC_RAW).
enum class ClockKind : std::uint8_t { tsc, monotonic_raw };

/// "tsc", "monotonic_raw"
std::string_view to_string(ClockKind kind) noexcept;

/// CLOCK_MONOTONIC_RAW in nanoseconds: not slewed by NTP, so that its rate is the hardware's.
std::uint64_t monotonic_raw_ns() noexcept;

namespace detail {
/// True if CPUID promises a constant rate (0x80000007, EDX bit 8), the process may execute rdtsc, and the kernel has
/// not removed the TSC from its list of clock sources as unstable.
bool tsc_is_usable() noexcept;
inline const bool use_tsc = tsc_is_usable();
}  // namespace detail

inline ClockKind clock_kind() noexcept { return detail::use_tsc ? ClockKind::tsc : ClockKind::monotonic_raw; }

/// The current time in ticks of `clock_kind()`. Not serialising: a neighbouring instruction may move across it by a few
/// nanoseconds, which is less than a fence would cost.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  if (detail::use_tsc) [[likely]] {
    return __rdtsc();
  }
#endif
  return monotonic_raw_ns();
}

/// One moment, read from both clocks.
struct ClockAnchor {
  std::uint64_t ticks = 0;
  std::uint64_t raw_ns = 0;
};

/// The median of about 1000 bracketed pairs (ticks, clock_gettime, ticks), which an interrupt between two reads cannot
/// move. Takes about 0.1 ms.
ClockAnchor read_clock_anchor() noexcept;

/// Converts ticks to nanoseconds by means of two anchors. The further apart the anchors, the better the rate:
/// recalibrate at the end of a measurement.
class ClockCalibration {
 public:
  /// Takes two anchors about 2 ms apart: accurate to a few parts per million.
  ClockCalibration() noexcept;
  ClockCalibration(ClockAnchor first, ClockAnchor last) noexcept;

  /// Moves the second anchor to now.
  void recalibrate() noexcept;

  /// Nanoseconds on the CLOCK_MONOTONIC_RAW time line.
  [[nodiscard]] std::int64_t to_ns(std::uint64_t tick) const noexcept;
  [[nodiscard]] double duration_ns(double tick_count) const noexcept { return tick_count * ns_per_tick_; }
  [[nodiscard]] double ns_per_tick() const noexcept { return ns_per_tick_; }
  /// The change of the rate by the last recalibration, in parts per million.
  [[nodiscard]] double drift_ppm() const noexcept { return drift_ppm_; }

 private:
  void update_rate() noexcept;

  ClockAnchor first_;
  ClockAnchor last_;
  double ns_per_tick_ = 1.0;
  double drift_ppm_ = 0.0;
};

struct ClockFigures {
  ClockKind kind = ClockKind::monotonic_raw;
  /// The smallest difference between two successive readings: what the clock can resolve.
  double resolution_ns = 0.0;
  /// One call of ticks(): the median of batches.
  double cost_ns = 0.0;
};

/// Measures this machine's clock; takes about 1 ms.
ClockFigures measure_clock(const ClockCalibration& calibration);

}  // namespace diptych::profiler
