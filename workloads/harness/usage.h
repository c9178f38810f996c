#pragma once

#include <functional>

#include <nlohmann/json.hpp>

#include "profiler/counters.h"
#include "profiler/system_files.h"

/// What calls take besides time: resident memory, page faults, hardware events. Advisory: they depend on what else the
/// process holds and on the machine's state, so nothing is decided by them.
namespace diptych::workloads {

class UsageMeter {
 public:
  /// Finds out, in about 2 ms, whether the machine counts hardware events.
  explicit UsageMeter(profiler::SystemFiles files = profiler::SystemFiles(),
                      profiler::SystemCalls system = profiler::SystemCalls::real());

  /// Runs `block`, which makes `calls` calls on this thread, and adds to the arm's entry in a process of run.json:
  ///   "memory":   {"peak_rss_bytes", "page_faults"}
  ///   "counters": {"calls", "cycles", "instructions", "cache_misses", "branch_misses"}
  /// The peak is the whole process's while the block ran, in bytes; all else is per call, of this thread. What isn't
  /// known is null, and "reason" says why.
  void measure(nlohmann::json& arm, std::int64_t calls, const std::function<void()>& block) const;

 private:
  profiler::SystemFiles files_;
  profiler::SystemCalls system_;
  profiler::CounterSupport support_;
};

}  // namespace diptych::workloads
