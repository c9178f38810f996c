#include "workloads/harness/op_split.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include <fmt/format.h>

#include "framework/autograd/tape.h"
#include "profiler/op_table.h"
#include "profiler/tracer.h"
#include "workloads/harness/op_list.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

struct Part {
  const char* name;
  std::function<void()> run;
};

/// Seconds of each part: repetitions go through all parts, so that a slow moment hits them alike. A short part runs
/// several times in one measurement, at least fifty times the clock's resolution together.
json time_parts(const std::vector<Part>& parts, double budget_seconds) {
  constexpr double kLeast = 2e-6;
  constexpr int kFewest = 3;
  constexpr int kMost = 400;
  std::vector<int> inner;
  for (const Part& part : parts) {
    const double start = now_seconds();
    part.run();
    inner.push_back(static_cast<int>(std::clamp(kLeast / std::max(now_seconds() - start, 1e-9), 1.0, 1e3)));
  }
  std::vector<std::vector<double>> seconds(parts.size());
  const double end = now_seconds() + budget_seconds;
  for (int repetition = 0; repetition < kMost && (repetition < kFewest || now_seconds() < end); ++repetition) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const double start = now_seconds();
      for (int k = 0; k < inner[i]; ++k) {
        parts[i].run();
      }
      seconds[i].push_back((now_seconds() - start) / inner[i]);
    }
  }
  json result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    result[parts[i].name] = median_of(seconds[i]);
  }
  return result;
}

/// The backward pass without the ops that it applies, by the trace points: walking the tape and the gradient rules.
double backward_seconds(ArmInstance& eager) {
  constexpr int kCalls = 3;
  static const profiler::TracerOverhead overhead = profiler::measure_overhead();
  profiler::Tracer tracer;
  tracer.start();
  for (int i = 0; i < kCalls; ++i) {
    eager.call(i);
  }
  for (const profiler::OpRow& row : profiler::op_table(tracer.stop(), overhead).rows) {
    if (row.category == trace::Category::autograd) {
      return std::max(0.0, row.corrected_self_ns * 1e-9 / kCalls);
    }
  }
  return 0;
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
    split["backward_seconds"] = backward_seconds(eager);
    split["ops"] = applied;
    split["recorded"] = recorded;
    split["kinds"] = split_kinds(list, 0.4 * budget_seconds);
    return split;
  } catch (const Error& error) {
    return {{"reason", error.what()}};
  }
}

}  // namespace diptych::workloads
