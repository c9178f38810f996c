#include "reports/analysis/ladder_split.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "reports/run/run.h"
#include "reports/statistics/statistics.h"
#include "reports/text/format.h"

namespace diptych::reports {
namespace {

// Parts of one process, in the seconds that it measured. Times without kernels are small, and so are the errors of
// their differences. What kernels add is a separate part, memory, which was paired when it was measured.
double dispatch(const OpSplit& split) {
  return split.hollow_list_seconds() - split.inference_seconds() - split.allocation_seconds();
}
double tape(const OpSplit& split) { return split.taped_seconds() - split.untaped_seconds() + split.backward_seconds(); }
/// The rest of the program without kernels: its own code between the ops.
double program(const OpSplit& split) { return split.hollow_seconds() - split.hollow_list_seconds() - tape(split); }
double explained(const OpSplit& split) {
  return split.hollow_seconds() + split.memory_seconds() - split.hollow_replay_seconds();
}

constexpr const char* kKindParts[] = {"dispatch_seconds", "inference_seconds", "allocation_seconds", "kernel_seconds"};

double seconds_of(const SplitKind& kind, const char* part) { return kind.seconds(part).value_or(0); }

/// The figure of a part from the probes of one kind of op alone; dispatch is the rest.
double probed(const SplitKind& kind, const std::string& part) {
  if (part != "dispatch_seconds") {
    return seconds_of(kind, part.c_str());
  }
  const double parts = seconds_of(kind, "inference_seconds") + seconds_of(kind, "allocation_seconds");
  return std::max(0.0, seconds_of(kind, "apply_seconds") - parts);
}

/// Divides the totals among the kinds of op in proportion to the time that each took alone. When run alone, caches are
/// warmer, and ops overlap that wait for each other in the program.
Json kinds_of(const std::vector<OpSplit>& splits, const Split& totals) {
  Json kinds = Json::array();
  for (const SplitKind first : splits.front().kinds()) {
    Json kind = {{"op", first.op()}, {"calls", first.calls().value_or(0)}};
    for (const char* part : kKindParts) {
      double own = 0;
      double all = 0;
      for (const OpSplit& split : splits) {
        for (const SplitKind other : split.kinds()) {
          const double seconds = probed(other, part);
          all += seconds;
          own += other.op() == first.op() ? seconds : 0;
        }
      }
      const auto total = totals.part(part);
      kind[part] = all > 0 && total ? own / all * total->value : 0.0;
    }
    kinds.push_back(std::move(kind));
  }
  const auto beside = [](const SplitKind& kind) {
    return seconds_of(kind, "dispatch_seconds") + seconds_of(kind, "inference_seconds") +
           seconds_of(kind, "allocation_seconds");
  };
  std::stable_sort(kinds.begin(), kinds.end(), [&](const Json& a, const Json& b) { return beside(a) > beside(b); });
  return kinds;
}

}  // namespace

nlohmann::json split_of(const Cell& cell, const std::vector<double>& rung, double unit) {
  std::vector<OpSplit> splits;
  std::vector<double> saved;
  std::size_t process = 0;
  for (const Process entry : cell.processes()) {
    if (entry.rounds().empty()) {
      continue;  // nor do they count in `rung`
    }
    const OpSplit split = entry.op_split();
    if (const std::string reason = split.reason(); !reason.empty()) {
      return {{"reason", reason}};
    }
    if (split.eager_seconds() > 0 && !split.has_hollow_seconds()) {
      return {{"reason", "this run found the parts as small differences of large times; measure it again"}};
    }
    if (split.eager_seconds() > 0 && process < rung.size()) {
      splits.push_back(split);
      saved.push_back(rung[process]);
    }
    ++process;
  }
  if (splits.empty()) {
    return nullptr;
  }
  const auto scaled = [&](const std::function<double(const OpSplit&)>& part) {
    std::vector<double> values;
    for (const OpSplit& split : splits) {
      values.push_back(part(split) / split.eager_seconds() * unit);
    }
    return values;
  };
  const std::vector<double> parts = scaled(explained);
  std::vector<double> left = saved;
  std::transform(left.begin(), left.end(), parts.begin(), left.begin(), std::minus<>());
  const Estimate gap = mean_interval(saved);
  const Estimate sum = mean_interval(parts);
  const Estimate residual = mean_interval(left);
  Json result = {{"dispatch_seconds", to_json(mean_interval(scaled(dispatch)))},
                 {"inference_seconds", to_json(mean_interval(scaled(&OpSplit::inference_seconds)))},
                 {"allocation_seconds", to_json(mean_interval(scaled(&OpSplit::allocation_seconds)))},
                 {"tape_seconds", to_json(mean_interval(scaled(tape)))},
                 {"program_seconds", to_json(mean_interval(scaled(program)))},
                 {"kernel_seconds", to_json(mean_interval(scaled(&OpSplit::kernel_seconds)))},
                 {"memory_seconds", to_json(mean_interval(scaled(&OpSplit::memory_seconds)))},
                 {"replay_overhead_seconds", to_json(mean_interval(scaled(&OpSplit::hollow_replay_seconds)))},
                 {"explained_seconds", to_json(sum)},
                 {"rung_seconds", to_json(gap)},
                 {"residual_seconds", to_json(residual)},
                 {"within", residual.has_interval() ? Json(!residual.excludes(0)) : Json()}};
  result["kinds"] = kinds_of(splits, result);
  if (result["within"] == false) {
    result["reason"] =
        fmt::format("its parts add up to {}, the rung saves {}: what the machine did changed between the two",
                    format_seconds(sum), format_seconds(gap));
  }
  return result;
}

}  // namespace diptych::reports
