#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>

struct perf_event_attr;

namespace diptych::profiler {

/// What the operating system counts for the calling thread without perf events.
struct ThreadUsage {
  double cpu_ns = 0.0;
  double page_faults = 0.0;
  double context_switches = 0.0;
};

/// Everything that the counters need from the operating system, so that tests can replace it. Failed calls return
/// -errno.
struct SystemCalls {
  /// For the calling thread, on any CPU. Returns a file descriptor.
  std::function<int(perf_event_attr& attributes, int group)> open;
  std::function<ssize_t(int file, void* buffer, std::size_t size)> read;
  std::function<int(int file, unsigned long request, void* argument)> ioctl;
  std::function<void(int file)> close;
  /// Whether sysfs lists a CPU performance-monitoring unit; nullopt where sysfs cannot be read.
  std::function<std::optional<bool>()> has_cpu_pmu;
  std::function<ThreadUsage()> thread_usage;

  /// The real calls of this machine.
  static SystemCalls real();
};

/// What a failed perf_event_open means and what to do about it, for example "no permission (perf_event_paranoid ...)".
std::string explain_open_error(int error_number);

}  // namespace diptych::profiler
