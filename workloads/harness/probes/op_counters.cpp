#include "workloads/harness/probes/op_counters.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "framework/core/trace_points.h"
#include "workloads/harness/probes/clock_hooks.h"

namespace diptych::workloads {
namespace {

constexpr std::size_t kMostOps = 1 << 16;  ///< of a call; further ones aren't counted
constexpr std::size_t kDeepest = 16;
constexpr std::size_t kNowhere = kMostOps;

/// Reads the counters where ops begin and end. What it needs is allocated ahead.
class CountClock {
 public:
  CountClock(const profiler::CounterGroup& group, std::size_t events)
      : group_(group), events_(events), now_(events), open_(kDeepest * events) {
    ops_.reserve(kMostOps);
    counts_.reserve(kMostOps * events);
  }

  void begin(const trace::Label& label, std::uint64_t source_op) {
    if (label.category != trace::Category::op) {
      return;
    }
    const std::size_t depth = depth_++;
    if (depth >= kDeepest) {
      return;
    }
    place_[depth] = ops_.size() < kMostOps ? ops_.size() : kNowhere;
    if (place_[depth] != kNowhere) {
      ops_.push_back({&label, source_op});
      counts_.resize(counts_.size() + events_);
      group_.sample({open_.data() + depth * events_, events_});
    }
  }

  void end(const trace::Label& label) {
    if (label.category != trace::Category::op) {
      return;
    }
    group_.sample(now_);
    const std::size_t depth = --depth_;
    if (depth >= kDeepest || place_[depth] == kNowhere) {
      return;
    }
    for (std::size_t i = 0; i < events_; ++i) {
      const double counted = now_[i] - open_[depth * events_ + i];
      counts_[place_[depth] * events_ + i] += counted;
      if (depth > 0) {
        counts_[place_[depth - 1] * events_ + i] -= counted;
      }
    }
  }

  void counter(std::int64_t /*value*/, const void* /*subject*/) {}

  /// Of the ops so far, less `overhead`; forgets them.
  std::vector<OpCounts::Op> take(const std::vector<double>& overhead) {
    std::vector<OpCounts::Op> ops;
    for (std::size_t op = 0; op < ops_.size(); ++op) {
      OpCounts::Op& taken = ops.emplace_back(OpCounts::Op{ops_[op].label->name, ops_[op].source_op, {}});
      for (std::size_t i = 0; i < events_; ++i) {
        taken.counts.push_back(counts_[op * events_ + i] - overhead[i]);
      }
    }
    ops_.clear();
    counts_.clear();
    return ops;
  }

 private:
  struct Started {
    const trace::Label* label;
    std::uint64_t source_op;
  };
  const profiler::CounterGroup& group_;
  std::size_t events_;
  std::vector<double> now_, open_;                ///< open_: by depth, the counts where the op began
  std::array<std::size_t, kDeepest> place_ = {};  ///< by depth, among ops_
  std::size_t depth_ = 0;
  std::vector<Started> ops_;
  std::vector<double> counts_;
};

/// What an op without anything in it counts.
std::vector<double> overhead_of(CountClock& clock, std::size_t events) {
  static constexpr trace::Label kNothing{"nothing", trace::Category::op};
  constexpr int kZones = 200;
  for (int i = 0; i < kZones; ++i) {
    const trace::Zone zone(&kNothing);
  }
  std::vector<double> median(events);
  const std::vector<OpCounts::Op> empty = clock.take(std::vector<double>(events));
  for (std::size_t i = 0; i < events && !empty.empty(); ++i) {
    std::vector<double> all;
    for (const OpCounts::Op& op : empty) {
      all.push_back(op.counts[i]);
    }
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    std::nth_element(all.begin(), middle, all.end());
    median[i] = *middle;
  }
  return median;
}

/// The events that can be counted here; the others go to `missing`.
std::vector<std::string> countable(const std::vector<std::string>& events, const profiler::SystemCalls& system,
                                   OpCounts& result) {
  profiler::CounterGroup group(events, system);
  group.start();
  std::vector<double> counts(events.size());
  group.sample(counts);
  const profiler::CounterReading reading = group.stop();
  std::vector<std::string> counted;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!std::isnan(counts[i])) {
      counted.push_back(events[i]);
      continue;
    }
    result.missing.push_back(events[i]);
    if (result.reason.empty()) {
      const profiler::CounterValue& value = reading.values[i];
      result.reason = value.reason.empty() ? "the kernel doesn't count it for this thread" : value.reason;
    }
  }
  return counted;
}

}  // namespace

OpCounts count_ops(const std::function<void(int call)>& call, int calls, const std::vector<std::string>& events,
                   const profiler::SystemCalls& system) {
  OpCounts result;
  result.events = countable(events, system, result);
  if (result.events.empty()) {
    return result;
  }
  const std::size_t count = result.events.size();
  profiler::CounterGroup group(result.events, system);
  CountClock clock(group, count);
  group.start();
  {
    const ClockHooks hooks(clock);
    const std::vector<double> overhead = overhead_of(clock, count);
    for (int i = 0; i < calls; ++i) {
      call(i);
      result.calls.push_back(clock.take(overhead));
    }
  }
  group.stop();
  return result;
}

}  // namespace diptych::workloads
