#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <functional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

/// How the time of work grows with its size, told by a busy machine too.
namespace diptych::reports::testing {

/// Of this process alone: what others do meanwhile doesn't count.
inline double cpu_seconds() {
  std::timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The least CPU time of a call.
inline double fastest_call(const std::function<void()>& work) {
  constexpr int kTries = 2;
  constexpr double kLeastSeconds = 5e-3;  // a shorter one is lost in interrupts
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    int calls = 0;
    const double start = cpu_seconds();
    do {
      work();
      ++calls;
    } while (cpu_seconds() - start < kLeastSeconds);
    best = std::min(best, (cpu_seconds() - start) / calls);
  }
  return best;
}

/// The CPU time of work of `smallest`, 4 and 16 times that size grows by n log n at most: 16 to 24 times from the first
/// to the last, where the square takes 256 times as long. `make`: prepares work of a size, which isn't timed.
inline void expect_no_square(const std::string& what, std::size_t smallest,
                             const std::function<std::function<void()>(std::size_t)>& make) {
  constexpr double kMost = 45;  // caches hold less of what is large
  std::array<double, 3> seconds = {1e9, 1e9, 1e9};
  double growth = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    std::size_t size = smallest;
    for (double& of_size : seconds) {
      of_size = std::min(of_size, fastest_call(make(size)));
      size *= 4;
    }
    growth = seconds[2] / seconds[0];
    if (growth <= kMost) {
      break;
    }
  }
  const std::string said =
      fmt::format("{}: {:.3g}, {:.3g} and {:.3g} ms for {}, {} and {}: {:.1f} times", what, 1e3 * seconds[0],
                  1e3 * seconds[1], 1e3 * seconds[2], smallest, 4 * smallest, 16 * smallest, growth);
  EXPECT_LE(growth, kMost) << said;
  fmt::print("{}\n", said);
}

}  // namespace diptych::reports::testing
