#include "workloads/harness/op_split.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "framework/autograd/tape.h"
#include "workloads/harness/op_clock.h"
#include "workloads/harness/op_list.h"
#include "workloads/harness/timing.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;

struct Part {
  const char* name;
  std::function<double(int)> seconds;  ///< of one run, the mean of so many
};

Part timed(const char* name, std::function<void()> run) {
  return {name, [run = std::move(run)](int times) {
            const double start = steady_seconds();
            for (int k = 0; k < times; ++k) {
              run();
            }
            return (steady_seconds() - start) / times;
          }};
}

/// A part of a run that times itself.
Part self_timed(const char* name, std::function<double()> run) {
  return {name, [run = std::move(run)](int times) {
            double sum = 0;
            for (int k = 0; k < times; ++k) {
              sum += run();
            }
            return sum / times;
          }};
}

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
    seconds[i].push_back(parts[i].seconds(1));
    inner.push_back(static_cast<int>(std::clamp(kLeast / std::max(seconds[i][0], 1e-9), 1.0, 1e3)));
  }
  while (seconds[0].size() < kMost && steady_seconds() < end) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      seconds[i].push_back(parts[i].seconds(inner[i]));
    }
  }
  json result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    result[parts[i].name] = median_of(seconds[i]);
  }
  return result;
}

/// The backward passes without the ops that they apply: walking the tape and the gradient rules. Timed where they
/// happen; what the trace points add (the whole call's, in proportion) and what the ops take in the list come off.
double backward_seconds(const json& split, const PassTimes& passes) {
  const auto seconds = [&](const char* name) { return split[name].get<double>(); };
  const double added = std::max(0.0, seconds("clocked_seconds") - seconds("eager_seconds"));
  return std::max(0.0, seconds("passes_seconds") - added * passes.trace_points_in / passes.trace_points -
                           seconds("passes_ops_seconds"));
}

json split_kinds(const OpList& list, double budget_seconds) {
  json kinds = json::array();
  const std::vector<OpList::Kind> all = list.kinds();
  for (const OpList::Kind& kind : all) {
    json entry = time_parts({timed("apply_seconds", [&] { list.apply_kind(kind); }),
                             timed("kernel_seconds", [&] { list.run_kernels_of(kind); }),
                             timed("inference_seconds", [&] { list.infer_kind(kind); }),
                             timed("allocation_seconds", [&] { list.allocate_kind(kind); })},
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
  const double start = steady_seconds();
  eager.call(0);
  const double one_call = steady_seconds() - start;
  if (one_call > budget_seconds) {
    return {{"reason", fmt::format("a call takes {:.0f} ms, the probes have {:.0f} ms: measure with --standard",
                                   one_call * 1e3, budget_seconds * 1e3)}};
  }
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
    const auto call = [&] { eager.call(step++); };
    const PassTimes passes = time_passes(call);
    if (applied > 0 && passes.trace_points == 0) {
      return {{"reason", "this build has no trace points; build with DIPTYCH_TRACE_POINTS"}};
    }
    const auto run_list = [&] { list.run_eager(); };
    std::vector<Part> parts = {
        timed("eager_seconds", call),
        timed("list_seconds", run_list),
        timed("kernel_seconds", [&] { list.run_kernels(); }),
        timed("inference_seconds", [&] { list.run_inference(); }),
        timed("allocation_seconds", [&] { list.run_allocation(); }),
        timed("replay_seconds", [&] { replay.call(step++); }),
        timed("taped_seconds", [&] { list.run_recorded(recorded); }),
        timed("untaped_seconds", [&] { list.run_first(taped); }),
        self_timed("between_seconds", [&] { return seconds_between_ops(call); }),
        self_timed("list_between_seconds", [&] { return seconds_between_ops(run_list, passes.ops); })};
    if (!passes.ops.empty()) {
      parts.push_back(self_timed("passes_seconds", [&] { return time_passes(call).seconds; }));
      parts.push_back(self_timed("clocked_seconds", [&] { return time_passes(call).call_seconds; }));
      parts.push_back(self_timed("passes_ops_seconds", [&] { return list.seconds_within(passes.ops); }));
    }
    json split = time_parts(parts, 0.6 * budget_seconds);
    split["backward_seconds"] = passes.ops.empty() ? 0.0 : backward_seconds(split, passes);
    for (const char* probe : {"passes_seconds", "clocked_seconds", "passes_ops_seconds"}) {
      split.erase(probe);
    }
    split["ops"] = applied;
    split["recorded"] = recorded;
    split["kinds"] = split_kinds(list, 0.4 * budget_seconds);
    return split;
  } catch (const Error& error) {
    return {{"reason", error.what()}};
  }
}

}  // namespace diptych::workloads
