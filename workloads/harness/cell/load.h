#pragma once

#include <functional>
#include <optional>

#include <nlohmann/json.hpp>

#include "profiler/machine/system_files.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {

/// Measures what else ran during a span, such as that of a whole cell, start-up and checks included.
class LoadWatch {
 public:
  /// `own_seconds`: CPU seconds of this process so far.
  explicit LoadWatch(profiler::SystemFiles files, Clock clock, std::function<double()> own_seconds);

  /// {"before", "after", "others_cpu", "cpus"}: the load average (one minute) at construction and now; CPUs that other
  /// processes kept busy in between, on average (1: one CPU all the time); CPUs of the machine. null with "reason" if
  /// /proc doesn't say. [proc(5): /proc/stat counts in ticks of 10 ms, so short spans are coarse]
  [[nodiscard]] nlohmann::json finish() const;

 private:
  struct Sample {
    std::optional<double> load, busy;  ///< busy: CPU seconds of everything since boot
    std::optional<std::size_t> cpus;
    double own = 0;
    double time = 0;
  };
  [[nodiscard]] Sample sample() const;

  profiler::SystemFiles files_;
  Clock clock_;
  std::function<double()> own_seconds_;
  Sample before_;
};

/// User and system time of this process, all threads.
double own_cpu_seconds();

}  // namespace diptych::workloads
