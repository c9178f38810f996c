// What tracing adds to the calls of an aligned profile.

#include <algorithm>
#include <chrono>
#include <cmath>

#include "cli/aligned_profile.h"
#include "profiler/trace/tracer.h"
#include "reports/statistics/statistics.h"

namespace diptych::cli {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Blocks of so many calls of one arm.
class Blocks {
 public:
  explicit Blocks(workloads::ArmInstance& instance) : instance_(instance) {
    const double one = run_one();
    constexpr double kBlockSeconds = 2e-3;
    calls_ = static_cast<int>(std::clamp(std::ceil(kBlockSeconds / std::max(one, 1e-7)), 1.0, 2000.0));
  }

  double block_seconds() const { return calls_ * last_; }

  void untraced() { untraced_.push_back(run()); }
  void traced() {
    profiler::Tracer tracer(kTimesOnly);
    tracer.start();
    run_one();  // touches the memory for records
    traced_.push_back(run());
    const profiler::Trace trace = tracer.stop();
    zones_ = static_cast<double>(trace.zones.size()) / (calls_ + 1);
  }

  reports::TracedCalls result(const std::string& arm) const {
    reports::TracedCalls calls{arm, zones_, reports::median(untraced_), reports::median(traced_)};
    reports::set_change(calls, traced_, untraced_);
    return calls;
  }

 private:
  double run_one() {
    const Clock::time_point start = Clock::now();
    instance_.call(step_++);
    instance_.finish();
    return last_ = since(start);
  }
  double run() {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls_; ++i) {
      instance_.call(step_++);
      instance_.finish();
    }
    return last_ = since(start) / calls_;
  }

  workloads::ArmInstance& instance_;
  int calls_ = 1;
  int step_ = 0;
  double last_ = 0;
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
