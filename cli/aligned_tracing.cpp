// Tracing the arms of an aligned profile, one call in so many that it adds little, and what it adds.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cli/aligned_profile.h"
#include "profiler/trace/split_steps.h"
#include "profiler/trace/tracer.h"
#include "reports/statistics/statistics.h"
#include "workloads/processes/timing.h"

namespace diptych::cli {
namespace {

constexpr int kWarmUp = 3;
/// The part of its calls' time that tracing may add to an arm.
constexpr double kMostAdded = 0.05;
constexpr int kMostSkipped = 64;

/// Seconds of a call, over so many.
double timed(workloads::ArmInstance& instance, int& step, int calls) {
  const auto call = [&](std::int64_t /*index*/) {
    instance.call(step++);
    instance.finish();
  };
  return workloads::time_calls(workloads::steady_seconds, calls, call, [] {}) / calls;
}

/// Blocks of so many calls of one arm.
class Blocks {
 public:
  /// One call in `every` is traced.
  Blocks(workloads::ArmInstance& instance, int every) : instance_(instance), every_(every), one_(run(1)) {
    constexpr double kBlockSeconds = 2e-3;
    calls_ = static_cast<int>(std::clamp(std::ceil(kBlockSeconds / std::max(one_, 1e-7)), 1.0, 2000.0));
    calls_ = (calls_ + every_ - 1) / every_ * every_;
  }

  double block_seconds() const { return calls_ * one_; }

  void untraced() {
    run(1);  // brings what it reads into the caches, as does the one of traced()
    untraced_.push_back(run(calls_));
  }
  void traced() {
    profiler::Tracer tracer(kTimesOnly);
    tracer.start();
    run(1);  // also touches the memory for records
    int next = 0;
    const auto call = [&](std::int64_t /*index*/) {
      const bool counts = next == 0;
      next = next + 1 == every_ ? 0 : next + 1;
      if (every_ > 1) {
        counts ? tracer.resume() : tracer.pause();
      }
      instance_.call(step_++);
      instance_.finish();
    };
    traced_.push_back(workloads::time_calls(workloads::steady_seconds, calls_, call, [] {}) / calls_);
    const profiler::Trace trace = tracer.stop();
    const int traced_calls = calls_ / every_ + 1;
    zones_ = static_cast<double>(trace.zones.size()) / traced_calls;
  }

  reports::TracedCalls result(const std::string& arm, double zone_seconds) const {
    reports::TracedCalls calls{arm, zones_, reports::median(untraced_), reports::median(traced_)};
    calls.every = every_;
    calls.zone_seconds = zone_seconds;
    reports::set_change(calls, traced_, untraced_);
    return calls;
  }

 private:
  double run(int calls) { return timed(instance_, step_, calls); }

  workloads::ArmInstance& instance_;
  int every_;
  int step_ = 0;
  double one_;  ///< seconds of the first call
  int calls_ = 1;
  double zones_ = 0;
  std::vector<double> untraced_, traced_;
};

}  // namespace

void AlignedTraces::choose_sampling() {
  constexpr int kCalls = 5;
  for (const auto& instance : instances_) {
    Sampling& sampling = sampling_.emplace_back();
    sampling.overhead = overhead_;
    timed(*instance, sampling.step, kWarmUp);
    std::vector<double> seconds;
    for (int i = 0; i < kCalls; ++i) {
      seconds.push_back(timed(*instance, sampling.step, 1));
    }
    profiler::Tracer tracer(kTimesOnly);
    tracer.start();
    timed(*instance, sampling.step, 1);
    const double zones = static_cast<double>(tracer.stop().zones.size());
    const double added = zones * overhead_.enabled_ns * 1e-9 / reports::median(seconds);
    sampling.every = static_cast<int>(std::clamp(std::ceil(added / kMostAdded), 1.0, double{kMostSkipped}));
  }
}

void AlignedTraces::trace() {
  choose_sampling();
  static std::deque<trace::Label> labels;  // must outlive the trace
  const std::size_t first = labels.size();
  for (int step = 0; step < request_.steps; ++step) {
    labels.push_back({intern(fmt::format("ProfilerStep#{}", step)), trace::Category::user});
  }
  std::vector<std::size_t> owner;
  std::vector<std::vector<double>> untraced(instances_.size());
  profiler::Tracer tracer(kTimesOnly);
  tracer.start();
  for (int step = 0; step < request_.steps; ++step) {
    for (std::size_t turn = 0; turn < instances_.size(); ++turn) {
      const std::size_t arm = step % 2 == 0 ? turn : instances_.size() - 1 - turn;
      Sampling& sampling = sampling_[arm];
      if (sampling.every > 1) {
        tracer.pause();
        untraced[arm].push_back(timed(*instances_[arm], sampling.step, sampling.every - 1));
        tracer.resume();
      }
      owner.push_back(arm);
      const trace::Zone zone(&labels[first + static_cast<std::size_t>(step)]);
      instances_[arm]->call(sampling.step++);
      instances_[arm]->finish();
    }
    request_.beside();
  }
  const profiler::Trace whole = tracer.stop();
  if (whole.dropped > 0) {
    notes_.push_back(
        fmt::format("INCOMPLETE: {} records of the trace were dropped; ask for fewer --steps", whole.dropped));
  }
  traces_ = profiler::split_steps(whole, owner, instances_.size());
  for (std::size_t arm = 0; arm < instances_.size(); ++arm) {
    calibrate(arm, untraced[arm]);
  }
}

void AlignedTraces::calibrate(std::size_t arm, const std::vector<double>& untraced) {
  const profiler::Trace& trace = traces_[arm];
  const std::vector<std::size_t> steps = profiler::steps_of(trace);
  if (untraced.empty() || steps.empty()) {
    return;  // hardly any zones: an empty one's cost will do
  }
  std::vector<double> traced;
  for (const std::size_t step : steps) {
    traced.push_back(static_cast<double>(trace.zones[step].duration_ns()));
  }
  const double zones = static_cast<double>(trace.zones.size()) / static_cast<double>(steps.size());
  const double added = (reports::median(traced) - 1e9 * reports::median(untraced)) / zones;
  constexpr double kMost = 3;  // times an empty zone's: more is no cost of tracing
  profiler::TracerOverhead& overhead = sampling_[arm].overhead;
  const double factor = std::clamp(added / overhead.enabled_ns, 0.0, kMost);
  overhead.enabled_ns *= factor;
  overhead.inside_ns *= factor;
}

reports::TracingCost AlignedTraces::measure_tracing(double budget_seconds) {
  std::vector<Blocks> arms;
  double round_seconds = 0;
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    round_seconds += 2 * arms.emplace_back(*instances_[i], sampling_[i].every).block_seconds();
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
    cost.arms.push_back(arms[i].result(arms_[i].name, sampling_[i].overhead.enabled_ns * 1e-9));
  }
  return cost;
}

}  // namespace diptych::cli
