#include "reports/analysis/cell_state.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reports/run/run.h"
#include "reports/statistics/statistics.h"

namespace diptych::reports {
namespace {

constexpr double unsure_ticks = 2;

/// Seconds of all timed blocks of a process.
double timed_seconds(const Process& process) {
  double seconds = 0;
  for (const Round round : process.rounds()) {
    for (const auto& [arm, value] : round.all_seconds().items()) {
      seconds += value.is_number() ? value.get<double>() : 0;
    }
  }
  return seconds * process.iterations().value_or(1);
}

class Machine {
 public:
  void add(const Process& process) {
    const Blocks blocks = process.blocks();
    if (!blocks) {
      add_whole_cell(process);
      return;
    }
    const double seconds = blocks.seconds().value_or(0);
    const double tick = blocks.tick_seconds().value_or(0.01);
    if (const auto stolen = blocks.steal_seconds(); stolen && seconds > 0) {
      steal_ = std::max(steal_, sure_share(*stolen, seconds, tick));
      all_stolen_ += *stolen;
      all_seconds_ += seconds;
      tick_ = tick;
    }
    if (const auto waited = blocks.waited_share()) {
      waits_.push_back(*waited);
    }
    add_load(blocks.others_cpu(), process);
  }

  void fill(CellState& state) const {
    state.steal = all_seconds_ > 0 ? std::max(steal_, sure_share(all_stolen_, all_seconds_, tick_)) : steal_;
    state.steal_of_cell = steal_of_cell_;
    if (!waits_.empty()) {
      state.waited = median(waits_);
    }
    if (!loads_.empty()) {
      state.others_load = median(loads_);
    }
  }

 private:
  static double sure_share(double stolen, double seconds, double tick) {
    return std::max(0.0, stolen - unsure_ticks * tick) / seconds;
  }

  void add_whole_cell(const Process& process) {
    const double timed = timed_seconds(process);
    if (const auto stolen = process.steal_seconds(); stolen && timed > 0) {
      steal_of_cell_ = std::max(steal_of_cell_, *stolen / timed);
    }
    add_load(process.load().others_cpu(), process);
  }

  void add_load(std::optional<double> others, const Process& process) {
    if (const auto cpus = process.load().cpus(); others && cpus && *cpus > 0) {
      loads_.push_back(*others / *cpus);
    }
  }

  double steal_ = 0;
  double all_stolen_ = 0;
  double all_seconds_ = 0;
  double tick_ = 0;
  double steal_of_cell_ = 0;
  std::vector<double> loads_;
  std::vector<double> waits_;
};

}  // namespace

CellState read_state(const Cell& cell, const Run& run) {
  CellState state;
  const Validity validity = cell.validity();
  state.agree = validity.agree();
  state.disagreement = validity.reason();
  state.quick = run.size().name() == "quick";
  Machine machine;
  for (const Process process : cell.processes()) {
    state.control_drift = std::max(state.control_drift, std::abs(process.control_drift().value_or(0)));
    machine.add(process);
  }
  machine.fill(state);
  return state;
}

}  // namespace diptych::reports
