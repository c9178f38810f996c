#pragma once

#include <algorithm>

namespace diptych {

/// Spins before sleeping, as long as that pays off: the more often spinning was in vain (both threads on one busy CPU,
/// say), the more rarely it is tried.
class Patience {
 public:
  /// Spins for so many times 20 microseconds.
  explicit Patience(int times = 1) : times_(times) {}

  /// False: the caller should sleep.
  template <class Condition>
  bool spin_until(const Condition& condition) noexcept {
    if (skip_ > 0) {
      --skip_;
      return condition();
    }
    for (int i = times_ * most_spins(); i > 0; --i) {
      if (condition()) {
        penalty_ = 0;
        return true;
      }
      pause();
    }
    penalty_ = std::min(2 * penalty_ + 1, kMostSkipped);
    skip_ = penalty_;
    return condition();
  }

 private:
  static constexpr int kMostSkipped = 31;

  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  /// About 20 microseconds, a few times the cost of a wake-up; none if the other thread can't run at the same time.
  static int most_spins() noexcept;

  int times_;
  int penalty_ = 0;
  int skip_ = 0;
};

}  // namespace diptych
