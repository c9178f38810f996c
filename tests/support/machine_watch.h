#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

/// What else the machine did while a test measured: time taken by a neighbour is not a failure of the program.
namespace diptych::testing {

/// What other guests and other processes may take of a machine that still counts as quiet. A test of speed fails only
/// on a quiet machine.
inline constexpr double kMostSteal = 0.05;
inline constexpr double kMostOthers = 0.2;
/// And how much of its best throughput the core has to give. A core whose second hardware thread another guest uses
/// gives half to two thirds of it, which no counter of this machine shows. Its clock drops by less.
inline constexpr double kLeastCore = 0.75;

struct MachineState {
  double steal = 0;       ///< seconds per second that other guests of the host took from its CPUs
  double others_cpu = 0;  ///< CPUs that other processes kept busy, on average
  double load = 0;        ///< average over one minute
  double core = 1;        ///< the core's median throughput, of the best that this process has seen; 1 without samples

  bool is_quiet() const { return steal <= kMostSteal && others_cpu <= kMostOthers && core >= kLeastCore; }
  /// "steal 9 %, others on 1.02 CPUs, core at 64 %, load 1.6"
  std::string text() const;
};

/// User and system time of this process and of the children that it has waited for, including their waited children.
double cpu_seconds_with_children();

/// The same work took these seconds at several times, and `best` at best: the median share of its best throughput that
/// the core gave.
double core_share(const std::vector<double>& seconds, double best);

class MachineWatch {
 public:
  /// `own_seconds`: CPU seconds so far of everything that doesn't count as "others".
  explicit MachineWatch(std::function<double()> own_seconds = cpu_seconds_with_children);
  ~MachineWatch();
  MachineWatch(const MachineWatch&) = delete;
  MachineWatch& operator=(const MachineWatch&) = delete;

  /// Times a fixed loop that fills the core's ports, twice (30 us): to be called every now and then.
  void sample_core();
  /// The state since construction. Values that /proc doesn't tell are 0. It counts in ticks of 10 ms, and time within
  /// their error isn't attributed to others.
  MachineState state() const;

 private:
  struct Start;
  std::unique_ptr<Start> start_;
  std::vector<double> core_seconds_;
};

}  // namespace diptych::testing
