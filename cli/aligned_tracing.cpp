// What tracing adds to the calls of an aligned profile.

#include <algorithm>
#include <cmath>

#include "cli/aligned_profile.h"
#include "profiler/trace/tracer.h"
#include "reports/statistics/statistics.h"
#include "workloads/processes/timing.h"

namespace diptych::cli {
namespace {

/// Blocks of so many calls of one arm.
class Blocks {
 public:
  explicit Blocks(workloads::ArmInstance& instance) : instance_(instance), one_(run(1)) {
    constexpr double kBlockSeconds = 2e-3;
    calls_ = static_cast<int>(std::clamp(std::ceil(kBlockSeconds / std::max(one_, 1e-7)), 1.0, 2000.0));
  }

  double block_seconds() const { return calls_ * one_; }

  void untraced() { untraced_.push_back(run(calls_)); }
  void traced() {
    profiler::Tracer tracer(kTimesOnly);
    tracer.start();
    run(1);  // touches the memory for records
    traced_.push_back(run(calls_));
    const profiler::Trace trace = tracer.stop();
    zones_ = static_cast<double>(trace.zones.size()) / (calls_ + 1);
  }

  reports::TracedCalls result(const std::string& arm) const {
    reports::TracedCalls calls{arm, zones_, reports::median(untraced_), reports::median(traced_)};
    reports::set_change(calls, traced_, untraced_);
    return calls;
  }

 private:
  /// Seconds of a call.
  double run(int calls) {
    const auto call = [&](std::int64_t /*index*/) {
      instance_.call(step_++);
      instance_.finish();
    };
    return workloads::time_calls(workloads::steady_seconds, calls, call, [] {}) / calls;
  }

  workloads::ArmInstance& instance_;
  int step_ = 0;
  double one_;  ///< seconds of the first call
  int calls_ = 1;
  double zones_ = 0;
  std::vector<double> untraced_, traced_;
};

}  // namespace

reports::TracingCost AlignedTraces::measure_tracing(double budget_seconds) {
  std::vector<Blocks> arms;
  double round_seconds = 0;
  for (const auto& instance : instances_) {
    round_seconds += 2 * arms.emplace_back(*instance).block_seconds();
  }
  constexpr double kFewest = 6;  // for an interval
  constexpr double kMost = 31;
  const int rounds = static_cast<int>(std::clamp(budget_seconds / std::max(round_seconds, 1e-6), kFewest, kMost));
  for (int round = 0; round < rounds; ++round) {
    for (Blocks& arm : arms) {
      if (round % 2 == 0) {
        arm.untraced();
        arm.traced();
      } else {
        arm.traced();
        arm.untraced();
      }
    }
  }
  reports::TracingCost cost{overhead_.enabled_ns * 1e-9, overhead_.spread_ns * 1e-9, {}};
  for (std::size_t i = 0; i < arms.size(); ++i) {
    cost.arms.push_back(arms[i].result(arms_[i].name));
  }
  return cost;
}

}  // namespace diptych::cli
