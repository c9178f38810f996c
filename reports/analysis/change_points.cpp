#include "reports/analysis/change_points.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "reports/statistics/statistics.h"

namespace diptych::reports {
namespace {

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

std::vector<Level> levels_of(std::span<const double> values, std::size_t shortest, double noise_floor) {
  if (values.empty()) {
    return {};
  }
  std::vector<std::size_t> bounds = change_points(values, shortest, noise_floor);
  bounds.insert(bounds.begin(), 0);
  bounds.push_back(values.size());
  const double noise = values.size() < 2 ? 0 : noise_of(values, noise_floor);
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

}  // namespace diptych::reports
