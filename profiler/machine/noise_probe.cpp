#include "profiler/machine/noise_probe.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "profiler/machine/system_files.h"
#include "profiler/trace/clock.h"

namespace diptych::profiler {

namespace {

constexpr double sample_ns = 5e5;

/// A chain of dependent multiplications, whose time depends on the core's clock and nothing else.
void spin(std::uint64_t iterations) {
  std::uint64_t state = 1;
  for (std::uint64_t i = 0; i < iterations; ++i) {
    state *= 0x9E3779B97F4A7C15U;
    asm volatile("" : "+r"(state));
  }
}

double timed_spin_ns(std::uint64_t iterations) {
  const std::uint64_t begin = monotonic_raw_ns();
  spin(iterations);
  return static_cast<double>(monotonic_raw_ns() - begin);
}

std::uint64_t iterations_per_sample() {
  constexpr std::uint64_t trial = 100'000;
  // The fastest trial: slow ones were disturbed, or ran before the clock had risen.
  double fastest = timed_spin_ns(trial);
  for (int i = 0; i < 20; ++i) {
    fastest = std::min(fastest, timed_spin_ns(trial));
  }
  return static_cast<std::uint64_t>(static_cast<double>(trial) * sample_ns / std::max(1.0, fastest));
}

}  // namespace

NoiseProbe probe_noise(double seconds) {
  const std::uint64_t iterations = iterations_per_sample();
  const double steal_before = steal_seconds();
  const std::uint64_t begin = monotonic_raw_ns();
  std::vector<double> times;
  double elapsed_ns = 0.0;
  do {
    times.push_back(timed_spin_ns(iterations));
    elapsed_ns = static_cast<double>(monotonic_raw_ns() - begin);
  } while (elapsed_ns < seconds * 1e9);

  NoiseProbe probe;
  probe.samples = static_cast<int>(times.size());
  probe.steal_fraction = (steal_seconds() - steal_before) / (elapsed_ns * 1e-9);
  const auto count = static_cast<double>(times.size());
  double mean = 0.0;
  for (const double time : times) {
    mean += time / count;
  }
  double variance = 0.0;
  for (const double time : times) {
    variance += (time - mean) * (time - mean) / count;
  }
  std::sort(times.begin(), times.end());
  probe.median_ns = times[times.size() / 2];
  probe.coefficient_of_variation = std::sqrt(variance) / mean;
  probe.worst_over_median = times.back() / probe.median_ns;
  return probe;
}

}  // namespace diptych::profiler
