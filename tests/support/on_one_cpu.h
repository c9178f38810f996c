#pragma once

#include <sched.h>

#include <gtest/gtest.h>

namespace diptych::testing {

/// How many CPUs the calling thread may use. Some libraries' hardware_concurrency() counts those of the machine.
inline int usable_cpus() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  return CPU_COUNT(&set);
}

/// As long as it lives, the calling thread, and those and the processes that it starts, may use one CPU: as by
/// `taskset`.
class OnOneCpu {
 public:
  OnOneCpu() {
    EXPECT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    while (cpu_ + 1 < CPU_SETSIZE && !CPU_ISSET(cpu_, &before_)) {
      ++cpu_;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu_, &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~OnOneCpu() { sched_setaffinity(0, sizeof(before_), &before_); }
  OnOneCpu(const OnOneCpu&) = delete;
  OnOneCpu& operator=(const OnOneCpu&) = delete;

  int cpu() const { return cpu_; }

 private:
  cpu_set_t before_{};
  int cpu_ = 0;
};

}  // namespace diptych::testing
