#include "workloads/harness/op_split.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "framework/autograd/tape.h"
#include "profiler/op_table.h"
#include "profiler/tracer.h"
#include "workloads/harness/op_list.h"
#include "workloads/harness/timing.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

struct Part {
  const char* name;
  std::function<void()> run;
};

/// Seconds of each part: repetitions go through all parts, so that a slow moment hits them alike. A short part runs
/// several times in one measurement, so that it lasts long against the clock's cost. Parts that are longer than the
/// budget run once.
json time_parts(const std::vector<Part>& parts, double budget_seconds) {
  constexpr double kLeast = 2e-6;
  constexpr std::size_t kMost = 400;
  const double end = steady_seconds() + budget_seconds;
  std::vector<int> inner;
  std::vector<std::vector<double>> seconds(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double start = steady_seconds();
    parts[i].run();
    seconds[i].push_back(std::max(steady_seconds() - start, 1e-9));
    inner.push_back(static_cast<int>(std::clamp(kLeast / seconds[i][0], 1.0, 1e3)));
  }
  while (seconds[0].size() < kMost && steady_seconds() < end) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const double start = steady_seconds();
      for (int k = 0; k < inner[i]; ++k) {
        parts[i].run();
      }
      seconds[i].push_back((steady_seconds() - start) / inner[i]);
    }
  }
  json result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    result[parts[i].name] = median_of(seconds[i]);
  }
  return result;
}

/// Seconds of one counter sample while a tracer runs.
double sample_seconds() {
  static constexpr trace::Label kProbe{"probe", trace::Category::user};  // outlives the trace
  constexpr int kSamples = 2000;
  const double start = steady_seconds();
  for (int i = 0; i < kSamples; ++i) {
    trace::counter(&kProbe, i);
  }
  return (steady_seconds() - start) / kSamples;
}

/// Samples of counters that were taken in zones of category autograd, outside of the ops in them.
std::size_t samples_between_ops(const profiler::Trace& trace) {
  std::vector<std::pair<std::int64_t, std::int64_t>> passes;
  std::vector<std::pair<std::int64_t, std::int64_t>> ops;
  for (const profiler::Trace::Zone& zone : trace.zones) {
    const bool is_pass = trace.label_of(zone).category == trace::Category::autograd;
    (is_pass ? passes : ops).emplace_back(zone.begin_ns, zone.end_ns);
  }
  const auto covered = [](const auto& zones, std::int64_t time) {  // sorted, apart from each other or nested
    const auto after = std::upper_bound(zones.begin(), zones.end(), std::pair(time, INT64_MAX));
    return after != zones.begin() && std::prev(after)->second >= time;
  };
  std::sort(ops.begin(), ops.end());
  std::sort(passes.begin(), passes.end());
  return static_cast<std::size_t>(
      std::count_if(trace.counters.begin(), trace.counters.end(), [&](const profiler::Trace::Counter& counter) {
        return covered(passes, counter.time_ns) && !covered(ops, counter.time_ns);
      }));
}

/// The backward pass without the ops that it applies, by the trace points: walking the tape and the gradient rules.
/// What tracing adds is taken off: zones by the op table, samples of the allocator's counter here.
double backward_seconds(ArmInstance& eager, int calls) {
  static const profiler::TracerOverhead overhead = profiler::measure_overhead();
  profiler::Tracer tracer;
  tracer.start();
  const double sample = sample_seconds();
  for (int i = 0; i < calls; ++i) {
    eager.call(i);
  }
  const profiler::Trace trace = tracer.stop();
  double self = 0;
  for (const profiler::OpRow& row : profiler::op_table(trace, overhead).rows) {
    self += row.category == trace::Category::autograd ? row.corrected_self_ns * 1e-9 : 0;
  }
  self -= sample * static_cast<double>(samples_between_ops(trace));
  return std::max(0.0, self / calls);
}

json split_kinds(const OpList& list, double budget_seconds) {
  json kinds = json::array();
  const std::vector<OpList::Kind> all = list.kinds();
  for (const OpList::Kind& kind : all) {
    json entry = time_parts({{"apply_seconds", [&] { list.apply_kind(kind); }},
                             {"kernel_seconds", [&] { list.run_kernels_of(kind); }},
                             {"inference_seconds", [&] { list.infer_kind(kind); }},
                             {"allocation_seconds", [&] { list.allocate_kind(kind); }}},
                            budget_seconds / static_cast<double>(all.size()));
    entry["op"] = kind.name;
    entry["calls"] = kind.ops.size();
    kinds.push_back(std::move(entry));
  }
  return kinds;
}

}  // namespace

nlohmann::json split_ops(ArmInstance& eager, ArmInstance& replay, double budget_seconds) {
  const std::uint64_t dispatches = thread_context.dispatches;
  const std::uint64_t serial = autograd::next_serial();
  eager.call(0);
  const std::size_t applied = thread_context.dispatches - dispatches;
  const std::size_t recorded = autograd::next_serial() - serial;
  const graph::Graph& graph = *replay.compiled()->graph();
  if (applied != graph.nodes.size()) {
    return {{"reason", fmt::format("eager applies {} ops, the captured graph has {}", applied, graph.nodes.size())}};
  }
  constexpr double kMostBytes = 512e6;
  double bytes = 0;
  for (const TensorType& type : graph.types) {
    bytes += static_cast<double>(type.shape.product()) * static_cast<double>(size_of(type.dtype));
  }
  if (bytes > kMostBytes) {
    return {
        {"reason", fmt::format("its values take {:.0f} MB together, more than {:.0f}", bytes / 1e6, kMostBytes / 1e6)}};
  }
  try {
    OpList list(graph, replay.program().inputs(0));
    const std::size_t taped = list.run_recorded(recorded);
    std::int64_t step = 0;
    json split = time_parts({{"eager_seconds", [&] { eager.call(step++); }},
                             {"list_seconds", [&] { list.run_eager(); }},
                             {"kernel_seconds", [&] { list.run_kernels(); }},
                             {"inference_seconds", [&] { list.run_inference(); }},
                             {"allocation_seconds", [&] { list.run_allocation(); }},
                             {"replay_seconds", [&] { replay.call(step++); }},
                             {"taped_seconds", [&] { list.run_recorded(recorded); }},
                             {"untaped_seconds", [&] { list.run_first(taped); }}},
                            0.6 * budget_seconds);
    const double seconds = split["eager_seconds"];
    split["backward_seconds"] = recorded == 0 ? 0.0 : backward_seconds(eager, seconds < 0.1 * budget_seconds ? 3 : 1);
    split["ops"] = applied;
    split["recorded"] = recorded;
    split["kinds"] = split_kinds(list, 0.4 * budget_seconds);
    return split;
  } catch (const Error& error) {
    return {{"reason", error.what()}};
  }
}

}  // namespace diptych::workloads
