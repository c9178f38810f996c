#include "reports/analysis/warmup.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/analysis/change_points.h"
#include "reports/run/run.h"
#include "reports/statistics/statistics.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

constexpr std::size_t shortest_of_calls = 5;
constexpr std::size_t shortest_of_rounds = 4;  // a block is less noisy than a call, and there are fewer blocks
constexpr std::size_t fewest_calls = 8;

double lowest(const std::vector<Level>& levels) {
  return std::min_element(levels.begin(), levels.end(),
                          [](const Level& a, const Level& b) { return a.value < b.value; })
      ->value;
}

}  // namespace

const char* name_of(WarmupClass c) {
  switch (c) {
    case WarmupClass::flat:
      return "flat";
    case WarmupClass::warm_up:
      return "warm-up";
    case WarmupClass::slowdown:
      return "slowdown";
    case WarmupClass::no_steady_state:
      return "no-steady-state";
  }
  return "";
}

std::optional<Warmup> classify_warmup(std::span<const double> calls, std::span<const double> rounds) {
  if (calls.size() < fewest_calls) {
    return std::nullopt;
  }
  const std::vector<double> call_logs = log_times(calls);
  const std::vector<double> round_logs = log_times(rounds);
  std::vector<Level> levels = levels_of(call_logs, shortest_of_calls);
  std::vector<Level> later = rounds.empty() ? std::vector<Level>{} : levels_of(round_logs, shortest_of_rounds);
  const Level last = later.empty() ? levels.back() : later.back();
  const bool unsettled = later.empty() ? levels.size() > 1 && 4 * last.begin >= 3 * call_logs.size()
                                       : later.size() > 2 || (later.size() > 1 && 2 * last.begin >= rounds.size());
  Warmup found;
  const std::span<const double> steady = later.empty() ? call_logs : round_logs;
  found.steady_seconds = std::exp(median(steady.subspan(last.begin, last.end - last.begin)));
  found.calls = later.size() > 1 ? calls.size() + 1 : levels.back().begin + 1;
  // The step from calls to rounds is removed: the first level of the rounds is equated with the last one of the calls.
  const double final_level = later.empty() ? last.value : levels.back().value + last.value - later.front().value;
  double fastest = lowest(levels);
  for (const Level& level : later) {
    fastest = std::min(fastest, levels.back().value + level.value - later.front().value);
  }
  if (unsettled) {
    found.kind = WarmupClass::no_steady_state;
  } else if (levels.size() + std::max<std::size_t>(later.size(), 1) == 2) {
    found.kind = WarmupClass::flat;
  } else {
    found.kind = final_level < fastest + same_level ? WarmupClass::warm_up : WarmupClass::slowdown;
  }
  return found;
}

nlohmann::json warmup_of(std::span<const Process> all, const std::string& arm) {
  std::map<std::string, int> counts;
  std::vector<double> after;
  std::vector<double> steady;
  for (const Process& process : all) {
    const std::vector<double> rounds = process.seconds(arm);
    for (const ArmOfProcess& entry : process.arms(arm)) {
      if (const auto found = classify_warmup(entry.warmup_seconds(), rounds)) {
        ++counts[name_of(found->kind)];
        after.push_back(static_cast<double>(found->calls));
        steady.push_back(found->steady_seconds);
      }
    }
  }
  if (steady.empty()) {
    return nullptr;
  }
  std::string shown = "inconsistent";
  Json processes = Json::object();
  for (const auto& [name, count] : counts) {
    processes[name] = count;
    if (4 * static_cast<std::size_t>(count) >= 3 * steady.size()) {
      shown = name;
    }
  }
  return {{"class", shown},
          {"processes", processes},
          {"steady_after_calls", median(after)},
          {"steady_seconds", median(steady)}};
}

}  // namespace diptych::reports
