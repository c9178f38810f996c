#include "reports/ladder_split.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/json_access.h"
#include "reports/statistics.h"

namespace diptych::reports {
namespace {

double plain(const Json& object, const char* key) { return number(object, key).value_or(0); }

// Of one process, in seconds as the process measured them. Times without kernels are small, and so are the errors of
// their differences; what kernels add is one part of its own, memory, which was paired where it was measured.
double dispatch(const Json& split) {
  return plain(split, "hollow_list_seconds") - plain(split, "inference_seconds") - plain(split, "allocation_seconds");
}
double tape(const Json& split) {
  return plain(split, "taped_seconds") - plain(split, "untaped_seconds") + plain(split, "backward_seconds");
}
/// What is left of the program without kernels: its own code between the ops.
double program(const Json& split) {
  return plain(split, "hollow_seconds") - plain(split, "hollow_list_seconds") - tape(split);
}
double explained(const Json& split) {
  return plain(split, "hollow_seconds") + plain(split, "memory_seconds") - plain(split, "hollow_replay_seconds");
}

constexpr const char* kKindParts[] = {"dispatch_seconds", "inference_seconds", "allocation_seconds", "kernel_seconds"};

/// What the probes of one kind alone say of a part; dispatch is the rest.
double probed(const Json& kind, const std::string& part) {
  if (part != "dispatch_seconds") {
    return plain(kind, part.c_str());
  }
  const double parts = plain(kind, "inference_seconds") + plain(kind, "allocation_seconds");
  return std::max(0.0, plain(kind, "apply_seconds") - parts);
}

/// Divides the totals among the kinds of op in proportion to what each took alone: alone, caches are warmer and ops
/// overlap that wait for each other in the program.
Json kinds_of(const std::vector<const Json*>& splits, const Json& totals) {
  Json kinds = Json::array();
  for (const Json& first : list(*splits.front(), "kinds")) {
    Json kind = {{"op", text(first, "op")}, {"calls", plain(first, "calls")}};
    for (const char* part : kKindParts) {
      double own = 0;
      double all = 0;
      for (const Json* split : splits) {
        for (const Json& other : list(*split, "kinds")) {
          const double seconds = probed(other, part);
          all += seconds;
          own += text(other, "op") == text(first, "op") ? seconds : 0;
        }
      }
      kind[part] = all > 0 ? own / all * plain(member(totals, part), "estimate") : 0.0;
    }
    kinds.push_back(std::move(kind));
  }
  const auto beside = [](const Json& kind) {
    return plain(kind, "dispatch_seconds") + plain(kind, "inference_seconds") + plain(kind, "allocation_seconds");
  };
  std::stable_sort(kinds.begin(), kinds.end(), [&](const Json& a, const Json& b) { return beside(a) > beside(b); });
  return kinds;
}

}  // namespace

nlohmann::json split_of(const nlohmann::json& cell, const std::vector<double>& rung, double unit) {
  std::vector<const Json*> splits;
  std::vector<double> saved;
  std::size_t process = 0;
  for (const Json& entry : list(cell, "processes")) {
    if (list(entry, "rounds").empty()) {
      continue;  // they don't count in `rung` either
    }
    const Json& split = member(entry, "op_split");
    if (const std::string reason = text(split, "reason"); !reason.empty()) {
      return {{"reason", reason}};
    }
    if (plain(split, "eager_seconds") > 0 && !number(split, "hollow_seconds")) {
      return {{"reason", "this run found the parts as small differences of large times; measure it again"}};
    }
    if (plain(split, "eager_seconds") > 0 && process < rung.size()) {
      splits.push_back(&split);
      saved.push_back(rung[process]);
    }
    ++process;
  }
  if (splits.empty()) {
    return nullptr;
  }
  const auto scaled = [&](const std::function<double(const Json&)>& part) {
    std::vector<double> values;
    for (const Json* split : splits) {
      values.push_back(part(*split) / plain(*split, "eager_seconds") * unit);
    }
    return values;
  };
  const auto member_of = [](const char* key) { return [key](const Json& split) { return plain(split, key); }; };
  const std::vector<double> parts = scaled(explained);
  std::vector<double> left = saved;
  std::transform(left.begin(), left.end(), parts.begin(), left.begin(), std::minus<>());
  const Estimate gap = mean_interval(saved);
  const Estimate sum = mean_interval(parts);
  const Estimate residual = mean_interval(left);
  Json result = {{"dispatch_seconds", to_json(mean_interval(scaled(dispatch)))},
                 {"inference_seconds", to_json(mean_interval(scaled(member_of("inference_seconds"))))},
                 {"allocation_seconds", to_json(mean_interval(scaled(member_of("allocation_seconds"))))},
                 {"tape_seconds", to_json(mean_interval(scaled(tape)))},
                 {"program_seconds", to_json(mean_interval(scaled(program)))},
                 {"kernel_seconds", to_json(mean_interval(scaled(member_of("kernel_seconds"))))},
                 {"memory_seconds", to_json(mean_interval(scaled(member_of("memory_seconds"))))},
                 {"replay_overhead_seconds", to_json(mean_interval(scaled(member_of("hollow_replay_seconds"))))},
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
