#include "reports/analysis/warmup.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/run/run.h"
#include "reports/statistics/statistics.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

constexpr std::size_t shortest_of_calls = 5;
constexpr std::size_t shortest_of_rounds = 4;  // a block is less noisy than a call, and there are fewer blocks
constexpr std::size_t fewest_calls = 8;
constexpr double same_level = 0.02;

double noise_of(std::span<const double> values, double floor) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < values.size(); ++i) {
    steps.push_back(std::abs(values[i] - values[i - 1]));
  }
  return std::max(floor, 1.4826 * median(steps) / std::sqrt(2.0));
}

std::vector<double> without_outliers(std::span<const double> values, double noise, std::size_t window) {
  std::vector<double> drawn_in;
  for (std::size_t i = 0; i < values.size(); ++i) {
    // The window keeps its width at the ends, so that two slow calls there aren't a majority.
    const std::size_t width = std::min(window, values.size());
    const std::size_t begin = std::min(i < window / 2 ? 0 : i - window / 2, values.size() - width);
    const double middle = median(values.subspan(begin, width));
    drawn_in.push_back(std::clamp(values[i], middle - 2.5 * noise, middle + 2.5 * noise));
  }
  return drawn_in;
}

// Levels of one series. Neighbours are joined if their medians differ by less than `same_level` or by less than four
// standard errors: a few slow calls in a row move the mean that the change points see, but hardly the median.
struct Level {
  std::size_t begin, end;
  double value;  // median of logs
};

std::vector<Level> levels_of(std::span<const double> values, std::size_t shortest) {
  std::vector<std::size_t> bounds = change_points(values, shortest);
  bounds.insert(bounds.begin(), 0);
  bounds.push_back(values.size());
  const double noise = values.size() < 2 ? 0 : noise_of(values, 0);
  const auto are_same = [&](const Level& a, const Level& b) {
    const double error =
        noise * std::sqrt(1.0 / static_cast<double>(a.end - a.begin) + 1.0 / static_cast<double>(b.end - b.begin));
    return std::abs(a.value - b.value) < std::max(same_level, 4 * error);
  };
  std::vector<Level> levels;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const auto level_between = [&](std::size_t begin, std::size_t end) {
      return Level{begin, end, median(values.subspan(begin, end - begin))};
    };
    const Level level = level_between(bounds[i], bounds[i + 1]);
    if (!levels.empty() && are_same(level, levels.back())) {
      levels.back() = level_between(levels.back().begin, level.end);
    } else {
      levels.push_back(level);
    }
  }
  return levels;
}

double lowest(const std::vector<Level>& levels) {
  return std::min_element(levels.begin(), levels.end(),
                          [](const Level& a, const Level& b) { return a.value < b.value; })
      ->value;
}

}  // namespace

std::vector<std::size_t> change_points(std::span<const double> raw, std::size_t shortest, double noise_floor) {
  const std::size_t n = raw.size();
  if (n < 2 * shortest) {
    return {};
  }
  const double noise = noise_of(raw, noise_floor);
  const std::vector<double> values = without_outliers(raw, noise, 2 * shortest - 1);
  std::vector<double> sums(n + 1);
  std::vector<double> squares(n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    const double v = (values[i] - values[0]) / noise;  // near zero: the difference of squares below keeps its digits
    sums[i + 1] = sums[i] + v;
    squares[i + 1] = squares[i] + v * v;
  }
  const auto cost = [&](std::size_t begin, std::size_t end) {
    const double sum = sums[end] - sums[begin];
    return squares[end] - squares[begin] - sum * sum / static_cast<double>(end - begin);
  };
  const double penalty = 8 * std::log(static_cast<double>(n));
  std::vector<double> best(n + 1, std::numeric_limits<double>::infinity());
  std::vector<std::size_t> last_begin(n + 1, 0);
  best[0] = -penalty;
  for (std::size_t end = shortest; end <= n; ++end) {
    for (std::size_t begin = 0; begin + shortest <= end; ++begin) {
      const double candidate = best[begin] + penalty + cost(begin, end);
      if (candidate < best[end]) {
        best[end] = candidate;
        last_begin[end] = begin;
      }
    }
  }
  std::vector<std::size_t> changes;
  for (std::size_t at = last_begin[n]; at > 0; at = last_begin[at]) {
    changes.insert(changes.begin(), at);
  }
  return changes;
}

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

nlohmann::json warmup_of(const Cell& cell, const std::string& arm) {
  std::map<std::string, int> counts;
  std::vector<double> after;
  std::vector<double> steady;
  for (const Process process : cell.processes()) {
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
