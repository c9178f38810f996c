#include "workloads/processes/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "framework/core/error.h"

namespace diptych::workloads {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double elapsed_since(const Clock& clock, double start) {
  const double seconds = clock() - start;
  if (!std::isfinite(seconds) || seconds <= 0) {
    throw Error(
        fmt::format("clock-step: the clock says that a measured span took {} s; the process's times are "
                    "dropped: measure again, or choose another clock source (`diptych doctor` names it)",
                    seconds));
  }
  return seconds;
}

double harness_seconds(const Clock& clock, std::int64_t count) {
  double best = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < 5; ++attempt) {
    best = std::min(best, time_calls(
                              clock, count, [](std::int64_t i) { asm volatile(""
                                                                              :
                                                                              : "r"(i)); }, [] {}));
  }
  return best;
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

double control_seconds(const Clock& clock) {
  double best = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < 5; ++attempt) {
    const double start = clock();
    std::uint64_t x = 88172645463325252ULL;
    for (int i = 0; i < 200000; ++i) {
      x ^= x << 13U;
      x ^= x >> 7U;
      x ^= x << 17U;
    }
    asm volatile("" : : "r"(x));
    best = std::min(best, elapsed_since(clock, start));
  }
  return best;
}

}  // namespace diptych::workloads
