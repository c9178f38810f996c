#pragma once

namespace diptych::profiler {

/// How evenly this machine currently runs a fixed piece of work.
struct NoiseProbe {
  int samples = 0;
  double median_ns = 0.0;
  double coefficient_of_variation = 0.0;  ///< standard deviation / mean
  double worst_over_median = 0.0;
  double steal_fraction = 0.0;  ///< of one CPU, while probing; NaN if unknown
};

/// Keeps one core busy for `seconds` with a spin loop that touches no memory, in samples of about 0.5 ms.
NoiseProbe probe_noise(double seconds = 0.35);

}  // namespace diptych::profiler
