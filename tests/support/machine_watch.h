#pragma once

#include <functional>
#include <memory>
#include <string>

/// What else the machine did while a test measured: time taken by a neighbour is not a failure of the program.
namespace diptych::testing {

/// What other guests and other processes may take of a machine that still counts as quiet. A test of speed fails only
/// on a quiet machine.
inline constexpr double kMostSteal = 0.05;
inline constexpr double kMostOthers = 0.2;

struct MachineState {
  double steal = 0;       ///< seconds per second that other guests of the host took from its CPUs
  double others_cpu = 0;  ///< CPUs that other processes kept busy, on average
  double load = 0;        ///< average over one minute

  bool is_quiet() const { return steal <= kMostSteal && others_cpu <= kMostOthers; }
  /// "steal 9 %, others on 1.02 CPUs, load 1.6"
  std::string text() const;
};

/// User and system time of this process and of the children that it has waited for, including their waited children.
double cpu_seconds_with_children();

class MachineWatch {
 public:
  /// `own_seconds`: CPU seconds so far of everything that doesn't count as "others".
  explicit MachineWatch(std::function<double()> own_seconds = cpu_seconds_with_children);
  ~MachineWatch();
  MachineWatch(const MachineWatch&) = delete;
  MachineWatch& operator=(const MachineWatch&) = delete;

  /// The state since construction. Values that /proc doesn't tell are 0. It counts in ticks of 10 ms, and time within
  /// their error isn't attributed to others.
  MachineState state() const;

 private:
  struct Start;
  std::unique_ptr<Start> start_;
};

}  // namespace diptych::testing
