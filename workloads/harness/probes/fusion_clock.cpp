#include "workloads/harness/probes/fusion_clock.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "framework/dispatch/op.h"
#include "framework/transforms/jit.h"
#include "workloads/harness/probes/clock_hooks.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {
namespace {

/// Of the thread that makes the call: what each instruction of a graph takes. Those of its regions are part of it.
struct InstructionClock {
  std::vector<double> seconds;
  int depth = 0;
  double began = 0;

  void begin(const trace::Label& /*label*/, std::uint64_t /*source_op*/) {
    if (++depth == 2) {  // inside the zone of the graph
      began = steady_seconds();
    }
  }
  void end(const trace::Label& /*label*/) {
    if (depth-- == 2 && seconds.size() < seconds.capacity()) {
      seconds.push_back(steady_seconds() - began);
    }
  }
  void counter(std::int64_t /*value*/, const void* /*subject*/) {}
};

/// A program as a graph whose instructions are timed.
class TimedGraph {
 public:
  TimedGraph(const Workload& workload, passes::PipelineOptions pipeline, std::uint64_t seed)
      : program_(workload.make(seed)),
        function_([this](std::span<const Tensor> inputs,
                         std::shared_ptr<void>& /*structure*/) { return program_->body(inputs); },
                  {.name = workload.name, .pipeline = std::move(pipeline)}) {
    call(0);
    const std::span<const graph::ValueId> values = function_.executable()->values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      instruction_.emplace(values[i], i);
    }
    clock_.seconds.reserve(values.size());
  }

  void call(std::int64_t step) { function_.call(program_->inputs(step), Location::current()); }
  void timed_call(std::int64_t step) {
    clock_.seconds.clear();
    const std::span<const Tensor> inputs = program_->inputs(step);
    const ClockHooks hooks(clock_);
    function_.call(inputs, Location::current());
  }
  /// Whether the last timed call ran each instruction once: one that compiles, or is recorded on a tape, is not timed
  /// so.
  bool is_whole() const { return clock_.seconds.size() == function_.executable()->values().size(); }
  /// Of the instruction that makes the value in the last timed call; 0 if none does.
  double seconds(graph::ValueId value) const {
    const auto found = instruction_.find(value);
    return found != instruction_.end() && found->second < clock_.seconds.size() ? clock_.seconds[found->second] : 0;
  }
  const std::vector<passes::PassRecord>& passes() const { return function_.ledger().front().passes; }

 private:
  std::unique_ptr<Program> program_;
  graph::JitFunction function_;
  std::map<graph::ValueId, std::size_t> instruction_;
  InstructionClock clock_;
};

struct Rounds {
  std::vector<double> fused, apart, ratio;
};

/// Sets the median of the ratios and the order statistics that enclose it with 95 % probability.
void set_interval(std::vector<double> ratios, KernelTiming& timing) {
  std::sort(ratios.begin(), ratios.end());
  const auto n = static_cast<double>(ratios.size());
  const double below = std::floor(n / 2 - 0.98 * std::sqrt(n));
  const auto first = static_cast<std::size_t>(std::max(below, 0.0));
  timing.ratio = median_of(ratios);
  timing.low = ratios[first];
  timing.high = ratios[ratios.size() - 1 - first];
}

}  // namespace

std::string KernelTiming::ops() const {
  constexpr std::size_t kMost = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(kernel.ops.size(), kMost); ++i) {
    text += (i > 0 ? ", " : "") + std::string(kernel.ops[i]->name);
  }
  return kernel.ops.size() > kMost ? text + ", and " + std::to_string(kernel.ops.size() - kMost) + " more" : text;
}

std::vector<KernelTiming> time_fused_kernels(const Workload& workload, const passes::PipelineOptions& pipeline,
                                             std::uint64_t seed, double budget_seconds) {
  passes::PipelineOptions in_order = pipeline;
  in_order.disabled.insert(passes::kSideBySide);  // one instruction at a time
  TimedGraph fused(workload, in_order, seed);
  std::vector<KernelTiming> timings;
  for (const passes::PassRecord& pass : fused.passes()) {
    for (const passes::FusedKernel& kernel : pass.fused) {
      timings.push_back({.pass = pass.name, .kernel = kernel});
    }
  }
  if (timings.empty()) {
    return timings;
  }
  passes::PipelineOptions unfused = in_order;
  unfused.disabled.insert(passes::kFusingPasses.begin(), passes::kFusingPasses.end());
  TimedGraph apart(workload, unfused, seed);

  constexpr std::size_t kLeastRounds = 5;
  constexpr std::size_t kMostRounds = 101;
  std::vector<Rounds> rounds(timings.size());
  const double end = steady_seconds() + budget_seconds;
  for (std::size_t round = 0; round < kMostRounds && (round < kLeastRounds || steady_seconds() < end); ++round) {
    // Each comes first in every second round: the first finds what the other has left in the cache.
    const auto step = static_cast<std::int64_t>(round) + 1;
    TimedGraph* const order[] = {round % 2 == 0 ? &fused : &apart, round % 2 == 0 ? &apart : &fused};
    for (TimedGraph* const graph : order) {
      graph->timed_call(step);
    }
    if (!fused.is_whole() || !apart.is_whole()) {
      continue;
    }
    for (std::size_t i = 0; i < timings.size(); ++i) {
      const passes::FusedKernel& kernel = timings[i].kernel;
      double replaced = 0;
      for (const graph::ValueId member : kernel.members) {
        replaced += apart.seconds(member);
      }
      const double own = fused.seconds(kernel.output);
      if (own > 0 && replaced > 0) {
        rounds[i].fused.push_back(own);
        rounds[i].apart.push_back(replaced);
        rounds[i].ratio.push_back(own / replaced);
      }
    }
  }
  std::vector<KernelTiming> timed;
  for (std::size_t i = 0; i < timings.size(); ++i) {
    if (!rounds[i].ratio.empty()) {
      timings[i].fused_seconds = median_of(rounds[i].fused);
      timings[i].apart_seconds = median_of(rounds[i].apart);
      set_interval(rounds[i].ratio, timings[i]);
      timed.push_back(std::move(timings[i]));
    }
  }
  std::stable_sort(timed.begin(), timed.end(), [](const KernelTiming& a, const KernelTiming& b) {
    return a.fused_seconds - a.apart_seconds > b.fused_seconds - b.apart_seconds;
  });
  return timed;
}

nlohmann::json to_json(std::span<const KernelTiming> timings, const std::set<graph::ValueId>& vetoed) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const KernelTiming& timing : timings) {
    kernels.push_back({{"pass", timing.pass},
                       {"value", timing.name()},
                       {"ops", timing.ops()},
                       {"seconds", timing.fused_seconds},
                       {"apart_seconds", timing.apart_seconds},
                       {"ratio", {timing.low, timing.ratio, timing.high}},
                       {"loss", timing.is_loss()},
                       {"vetoed", vetoed.contains(timing.name())}});
  }
  return kernels;
}

}  // namespace diptych::workloads
