#include "profiler/trace/clock.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <ctime>
#include <limits>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>
#endif

namespace diptych::profiler {

namespace {

constexpr std::size_t anchor_pairs = 1000;
constexpr std::uint64_t first_calibration_ns = 2'000'000;

#if defined(__x86_64__)
/// The kernel monitors the TSC and removes it from this list if it becomes unreliable. Unknown counts as reliable. No
/// streams here, because this runs before main.
bool kernel_trusts_tsc() noexcept {
  const int file = open("/sys/devices/system/clocksource/clocksource0/available_clocksource", O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return true;
  }
  std::array<char, 256> text{};
  const ssize_t length = read(file, text.data(), text.size() - 1);
  close(file);
  return length <= 0 || std::strstr(text.data(), "tsc") != nullptr;
}
#endif

}  // namespace

std::string_view to_string(ClockKind kind) noexcept { return kind == ClockKind::tsc ? "tsc" : "monotonic_raw"; }

std::uint64_t monotonic_raw_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

bool detail::tsc_is_usable() noexcept {
#if defined(__x86_64__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned invariant_tsc = 1U << 8U;
  if (__get_cpuid(0x80000007U, &eax, &ebx, &ecx, &edx) == 0 || (edx & invariant_tsc) == 0) {
    return false;
  }
  // A process can be denied rdtsc (PR_TSC_SIGSEGV), and would then die at the first read.
  int mode = 0;
  if (prctl(PR_GET_TSC, &mode, 0, 0, 0) == 0 && mode != PR_TSC_ENABLE) {
    return false;
  }
  return kernel_trusts_tsc();
#else
  return false;
#endif
}

ClockAnchor read_clock_anchor() noexcept {
  std::array<ClockAnchor, anchor_pairs> pairs;
  for (ClockAnchor& pair : pairs) {
    const std::uint64_t before = ticks();
    pair.raw_ns = monotonic_raw_ns();
    const std::uint64_t after = ticks();
    pair.ticks = before + (after - before) / 2;
  }
  // Offsets are relative to the middle pair, where an error of this rough rate has the least effect.
  const ClockAnchor middle = pairs[anchor_pairs / 2];
  const std::uint64_t span = std::max<std::uint64_t>(1, pairs.back().ticks - pairs.front().ticks);
  const double rough_rate = static_cast<double>(pairs.back().raw_ns - pairs.front().raw_ns) / static_cast<double>(span);
  std::array<double, anchor_pairs> offsets;
  for (std::size_t i = 0; i < anchor_pairs; ++i) {
    const auto tick_offset = static_cast<double>(static_cast<std::int64_t>(pairs[i].ticks - middle.ticks));
    const auto ns_offset = static_cast<double>(static_cast<std::int64_t>(pairs[i].raw_ns - middle.raw_ns));
    offsets[i] = ns_offset - tick_offset * rough_rate;
  }
  std::nth_element(offsets.begin(), offsets.begin() + anchor_pairs / 2, offsets.end());
  const auto correction = static_cast<std::int64_t>(std::llround(offsets[anchor_pairs / 2]));
  return {middle.ticks, middle.raw_ns + static_cast<std::uint64_t>(correction)};
}

ClockCalibration::ClockCalibration() noexcept : first_(read_clock_anchor()), last_(first_) {
  if (clock_kind() == ClockKind::tsc) {
    while (monotonic_raw_ns() - first_.raw_ns < first_calibration_ns) {
    }
    last_ = read_clock_anchor();
  }
  update_rate();
}

ClockCalibration::ClockCalibration(ClockAnchor first, ClockAnchor last) noexcept : first_(first), last_(last) {
  update_rate();
}

void ClockCalibration::recalibrate() noexcept {
  const double before = ns_per_tick_;
  last_ = read_clock_anchor();
  update_rate();
  drift_ppm_ = (ns_per_tick_ / before - 1.0) * 1e6;
}

void ClockCalibration::update_rate() noexcept {
  if (last_.ticks <= first_.ticks || last_.raw_ns <= first_.raw_ns) {
    return;  // no distance between the anchors yet: keep the rate
  }
  ns_per_tick_ = static_cast<double>(last_.raw_ns - first_.raw_ns) / static_cast<double>(last_.ticks - first_.ticks);
}

std::int64_t ClockCalibration::to_ns(std::uint64_t tick) const noexcept {
  // The signed distance from the anchor is small enough to be exact as a double; the absolute time is not.
  const auto distance = static_cast<double>(static_cast<std::int64_t>(tick - first_.ticks));
  return static_cast<std::int64_t>(first_.raw_ns) + std::llround(distance * ns_per_tick_);
}

ClockFigures measure_clock(const ClockCalibration& calibration) {
  constexpr std::size_t batches = 21;
  constexpr std::size_t reads = 500;
  std::uint64_t step = std::numeric_limits<std::uint64_t>::max();
  std::vector<double> costs;
  costs.reserve(batches);
  for (std::size_t batch = 0; batch < batches; ++batch) {
    const std::uint64_t start = ticks();
    std::uint64_t previous = start;
    for (std::size_t i = 0; i < reads; ++i) {
      previous = ticks();
    }
    costs.push_back(static_cast<double>(previous - start) / static_cast<double>(reads));
    for (std::size_t i = 0; i < reads; ++i) {
      const std::uint64_t now = ticks();
      if (now > previous) {
        step = std::min(step, now - previous);
      }
      previous = now;
    }
  }
  std::nth_element(costs.begin(), costs.begin() + batches / 2, costs.end());
  return {clock_kind(), calibration.duration_ns(static_cast<double>(step)),
          calibration.duration_ns(costs[batches / 2])};
}

}  // namespace diptych::profiler
