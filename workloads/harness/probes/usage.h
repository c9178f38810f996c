#pragma once

#include <functional>

#include <nlohmann/json.hpp>

#include "profiler/counters/counters.h"
#include "profiler/machine/system_files.h"

/// What calls use besides time: resident memory, page faults, hardware events. These figures are advisory: they depend
/// on what else the process holds and on the machine's state, so they decide nothing.
namespace diptych::workloads {

class UsageMeter {
 public:
  /// Finds out, in about 2 ms, whether the machine counts hardware events.
  explicit UsageMeter(profiler::SystemFiles files = profiler::SystemFiles(),
                      profiler::SystemCalls system = profiler::SystemCalls::real());

  /// Runs `block`, which makes `calls` calls on this thread, and adds to the arm's entry in a process of run.json:
  ///   "memory":   {"peak_rss_bytes", "page_faults"}
  ///   "counters": {"calls", "cycles", "instructions", "cache_misses", "branch_misses"}
  /// The peak is that of the whole process while the block ran, in bytes; all other figures are per call, of this
  /// thread. Unknown figures are null, and "reason" says why.
  void measure(nlohmann::json& arm, std::int64_t calls, const std::function<void()>& block) const;

 private:
  profiler::SystemFiles files_;
  profiler::SystemCalls system_;
  profiler::CounterSupport support_;
};

}  // namespace diptych::workloads
