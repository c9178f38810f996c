#pragma once

#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "profiler/machine/cpu_times.h"
#include "profiler/machine/system_files.h"

namespace diptych::workloads {

/// Measures what others took of the machine while blocks were timed: /proc is read before and after each block, outside
/// of the timed span, and the differences are summed. What happens between blocks, such as the start of another
/// framework or a check, doesn't count.
class BlockWatch {
 public:
  explicit BlockWatch(profiler::SystemFiles files) : files_(std::move(files)) {}

  /// Who runs the block: the engine, in this process, or another framework, in a process that waits for requests.
  enum class Side { engine, external };
  /// `threads`: those that may run the block, from all processes that take part.
  void begin(std::vector<profiler::ThreadTimes> threads);
  void end(Side side, const std::vector<profiler::ThreadTimes>& threads, double seconds);

  /// {"seconds", "steal_seconds", "waited_share", "others_cpu", "tick_seconds"}: the length of all blocks; what the
  /// hypervisor took of the CPUs that they ran on; the share of the engine's blocks in which their thread was ready and
  /// others had its CPU; CPUs of the whole machine that others kept busy meanwhile. null with "reason" if /proc doesn't
  /// say.
  ///
  /// A block's CPU is that of the thread that ran most in it. A thread that moved ran on two CPUs, and each counts
  /// half. The wait of another framework's process before its block isn't part of its time, so that wait doesn't count.
  nlohmann::json summary() const;

 private:
  struct Reading {
    std::optional<profiler::MachineTimes> machine;
    std::vector<profiler::ThreadTimes> threads;
  };

  profiler::SystemFiles files_;
  Reading before_;
  double seconds_ = 0;
  double engine_seconds_ = 0;
  double stolen_ = 0;  ///< these three: NaN from the first block whose value is unknown
  double waited_ = 0;
  double others_ = 0;
};

}  // namespace diptych::workloads
