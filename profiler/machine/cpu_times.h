#pragma once

#include <map>
#include <optional>
#include <vector>

#include "profiler/machine/system_files.h"

/// What CPUs and threads have done since they started, as counted by /proc.
namespace diptych::profiler {

/// Seconds of a CPU since boot. NaN: the kernel doesn't report them.
struct CpuTimes {
  double busy = 0;    ///< user, nice, system, interrupt and soft interrupt time: neither idle nor stolen
  double stolen = 0;  ///< withheld by the hypervisor. Real machines, and hypervisors that don't report it, give 0
};

struct MachineTimes {
  CpuTimes all;
  std::map<int, CpuTimes> cpus;  ///< by CPU number
};

/// Reads /proc/stat, which counts in ticks (tick_seconds()). A single interval is coarse, but the probability that a
/// tick falls into an interval is proportional to its length, so a sum of many has no bias. Empty if it can't be read.
std::optional<MachineTimes> machine_times(const SystemFiles& files = SystemFiles());

/// 10 ms nearly everywhere.
double tick_seconds();

/// Seconds of a thread since it started.
struct ThreadTimes {
  int id = 0;
  int cpu = -1;       ///< the CPU on which it last ran
  double ran = 0;     ///< on a CPU
  double waited = 0;  ///< ready, while others had the CPU
};

/// The threads of a process, "/proc/self" or "/proc/PID"; threads for which the kernel reports nothing are left out.
std::vector<ThreadTimes> thread_times(const SystemFiles& files, const std::string& process);

}  // namespace diptych::profiler
