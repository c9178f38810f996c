#include "workloads/harness/probes/op_split.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "framework/dispatch/op.h"
#include "framework/dispatch/tape.h"
#include "workloads/harness/probes/op_clock.h"
#include "workloads/harness/probes/op_list.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;

struct Part {
  const char* name;
  std::function<double(int)> seconds;  ///< of one run, as the mean of this many
  bool without_kernels = false;
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

/// Without kernels, the rest of a run is small, and so is the error of a difference of two such runs.
Part hollow(Part part) {
  part.without_kernels = true;
  return part;
}

/// Seconds by part, one value per repetition: the i-th values of all parts were measured next to each other.
class Times {
 public:
  /// `parts`: those without kernels come last. A short part runs several times in one measurement, so that this is long
  /// compared with the clock's cost. Parts that are longer than the budget run once.
  Times(const std::vector<Part>& parts, double budget_seconds) {
    constexpr double kLeast = 2e-6;
    constexpr std::size_t kMost = 400;
    const double end = steady_seconds() + budget_seconds;
    std::vector<int> inner(parts.size(), 1);
    std::optional<WithoutKernels> idle;
    std::size_t repetitions = 0;
    do {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i].without_kernels) {
          if (!idle) {
            idle.emplace();
          }
          parts[i].seconds(1);  // kernels have evicted it from the caches
        }
        const double seconds = parts[i].seconds(inner[i]);
        if (repetitions == 0) {
          inner[i] = static_cast<int>(std::clamp(kLeast / std::max(seconds, 1e-9), 1.0, 1e3));
        }
        seconds_[parts[i].name].push_back(seconds);
      }
      idle.reset();
    } while (++repetitions < kMost && steady_seconds() < end);
  }

  double median(const char* name) const { return median_of(seconds_.at(name)); }
  const std::vector<double>& of(const char* name) const { return seconds_.at(name); }

 private:
  std::map<std::string, std::vector<double>> seconds_;
};

/// The time of the backward passes without the ops that they apply: walking the tape, and the gradient rules. It is
/// timed in place; the cost of the trace points (a proportional share of the whole call's) and the time of the ops in
/// the list are subtracted.
double backward_seconds(const Times& times, const PassTimes& passes) {
  const double added = std::max(0.0, times.median("clocked") - times.median("hollow_seconds"));
  return std::max(
      0.0, times.median("passes") - added * passes.trace_points_in / passes.trace_points - times.median("passes_ops"));
}

/// The extra time of kernels in eager compared with planned memory, and of everything else because kernels evict it
/// from the caches.
double memory_seconds(const Times& times) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < times.of("list_seconds").size(); ++i) {
    differences.push_back(times.of("list_seconds")[i] - times.of("hollow_list_seconds")[i] -
                          times.of("kernel_seconds")[i]);
  }
  return median_of(differences);
}

json split_kinds(const OpList& list, double budget_seconds) {
  json kinds = json::array();
  const std::vector<OpList::Kind> all = list.kinds();
  for (const OpList::Kind& kind : all) {
    const Times times({timed("kernel_seconds", [&] { list.run_kernels_of(kind); }),
                       hollow(timed("apply_seconds", [&] { list.apply_kind(kind); })),
                       hollow(timed("inference_seconds", [&] { list.infer_kind(kind); })),
                       hollow(timed("allocation_seconds", [&] { list.allocate_kind(kind); }))},
                      budget_seconds / static_cast<double>(all.size()));
    json entry = {{"op", kind.name}, {"calls", kind.ops.size()}};
    for (const char* part : {"apply_seconds", "kernel_seconds", "inference_seconds", "allocation_seconds"}) {
      entry[part] = times.median(part);
    }
    kinds.push_back(std::move(entry));
  }
  return kinds;
}

}  // namespace

nlohmann::json split_ops(ArmInstance& eager, ArmInstance& replay, const MakeArm& make, double budget_seconds) {
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
    // Separate programs, because without kernels their weights become whatever is in memory.
    const std::unique_ptr<ArmInstance> idle_eager = make(eager.arm());
    const std::unique_ptr<ArmInstance> idle_replay = make(replay.arm());
    std::int64_t step = 0;
    const auto call = [&] { idle_eager->call(step++); };
    const auto call_replay = [&] { idle_replay->call(step++); };
    PassTimes passes;
    {
      const WithoutKernels idle;
      call();
      call_replay();  // compiles now, so that its loops do nothing
      passes = time_passes(call);
    }
    if (applied > 0 && passes.trace_points == 0) {
      return {{"reason", "this build has no trace points; build with DIPTYCH_TRACE_POINTS"}};
    }
    std::vector<Part> parts = {timed("eager_seconds", [&] { eager.call(step++); }),
                               timed("list_seconds", [&] { list.run_eager(); }),
                               timed("kernel_seconds", [&] { list.run_kernels(); }),
                               timed("replay_seconds", [&] { replay.call(step++); }),
                               hollow(timed("hollow_seconds", call)),
                               hollow(timed("hollow_list_seconds", [&] { list.run_eager(); })),
                               hollow(timed("hollow_replay_seconds", call_replay)),
                               hollow(timed("inference_seconds", [&] { list.run_inference(); })),
                               hollow(timed("allocation_seconds", [&] { list.run_allocation(); })),
                               hollow(timed("taped_seconds", [&] { list.run_recorded(recorded); })),
                               hollow(timed("untaped_seconds", [&] { list.run_first(taped); }))};
    const std::size_t reported = parts.size();
    if (!passes.ops.empty()) {
      parts.push_back(hollow(self_timed("passes", [&] { return time_passes(call).seconds; })));
      parts.push_back(hollow(self_timed("clocked", [&] { return time_passes(call).call_seconds; })));
      parts.push_back(hollow(self_timed("passes_ops", [&] { return list.seconds_within(passes.ops); })));
    }
    const Times times(parts, 0.6 * budget_seconds);
    json split;
    for (std::size_t i = 0; i < reported; ++i) {
      split[parts[i].name] = times.median(parts[i].name);
    }
    split["backward_seconds"] = passes.ops.empty() ? 0.0 : backward_seconds(times, passes);
    split["memory_seconds"] = memory_seconds(times);
    split["ops"] = applied;
    split["recorded"] = recorded;
    split["kinds"] = split_kinds(list, 0.4 * budget_seconds);
    return split;
  } catch (const Error& error) {
    return {{"reason", error.what()}};
  }
}

}  // namespace diptych::workloads
