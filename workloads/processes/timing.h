#pragma once

#include <cstdint>
#include <functional>
#include <vector>

/// Clock readings. They are used only for durations, and impossible ones are refused: a clock that stands still or goes
/// back is an error, not a fast arm.
namespace diptych::workloads {

/// Seconds since some fixed moment.
using Clock = std::function<double()>;

/// std::chrono::steady_clock.
double steady_seconds();

/// The value in the middle, the upper one of two; 0 if there are none. A single interrupted call doesn't move it.
double median_of(std::vector<double> values);

/// Seconds since `start`. Throws Error ("clock-step: ...") unless they are positive and finite.
double elapsed_since(const Clock& clock, double start);

/// Seconds of `count` calls of call(0), call(1), ... and then finish(); `stretch` > 0 lengthens the total by that
/// fraction, by spinning. Throws Error like elapsed_since.
template <typename Call, typename Finish>
double time_calls(const Clock& clock, std::int64_t count, Call&& call, Finish&& finish, double stretch = 0) {
  const double start = clock();
  for (std::int64_t i = 0; i < count; ++i) {
    call(i);
  }
  finish();
  double seconds = elapsed_since(clock, start);
  if (stretch > 0) {
    const double until = seconds * (1 + stretch);
    while (seconds < until) {
      seconds = elapsed_since(clock, start);
    }
  }
  return seconds;
}

/// Seconds that a block of `count` calls spends on the harness: two clock readings and the loop. The minimum of five.
double harness_seconds(const Clock& clock, std::int64_t count);

/// Seconds of a fixed amount of integer work, the minimum of five: if it changes, the machine did.
double control_seconds(const Clock& clock);

}  // namespace diptych::workloads
