// Tests of significance, and the intervals that cross-check the t interval.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/statistics/distributions.h"
#include "reports/statistics/statistics.h"

namespace diptych::reports {
namespace {

void check_finite(std::span<const double> effects) {
  for (const double e : effects) {
    if (!std::isfinite(e)) {
      throw Error(fmt::format("an effect of {} is not a measurement: effects are finite", e));
    }
  }
}

// P(X <= k) for X ~ Binomial(n, 1/2).
double fair_coin_cdf(std::size_t k, std::size_t n) {
  const auto count = static_cast<double>(n);
  const auto upper = static_cast<double>(k);
  return k >= n ? 1 : beta_cdf(0.5, count - upper, upper + 1);
}

}  // namespace

std::vector<double> holm(std::span<const double> p) {
  for (const double value : p) {
    if (!(value >= 0 && value <= 1)) {
      throw Error(fmt::format("{} is no p-value: it lies between 0 and 1", value));
    }
  }
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    largest = std::max(largest, std::min(1.0, static_cast<double>(p.size() - rank) * p[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

std::optional<Interval> sign_interval(std::span<const double> effects, double level) {
  check_finite(effects);
  const std::size_t n = effects.size();
  if (n < 6) {
    return std::nullopt;
  }
  // [x_(k+1), x_(n-k)] covers the median with 1 - 2 P(X <= k).
  std::size_t k = 0;
  if (1 - 2 * fair_coin_cdf(0, n) < level) {
    return std::nullopt;
  }
  while (k + 1 < n / 2 && 1 - 2 * fair_coin_cdf(k + 1, n) >= level) {
    ++k;
  }
  std::vector<double> sorted(effects.begin(), effects.end());
  std::sort(sorted.begin(), sorted.end());
  return Interval{sorted[k], sorted[n - 1 - k]};
}

std::optional<Interval> bootstrap_interval(std::span<const std::vector<double>> rounds, std::uint64_t seed,
                                           double level, int resamples) {
  for (const std::vector<double>& process : rounds) {
    check_finite(process);
    if (process.empty()) {
      throw Error("a process without a round has no effect; leave it out");
    }
  }
  if (rounds.size() < 2 || resamples < 1) {
    return std::nullopt;
  }
  std::mt19937_64 random(seed);
  const auto below = [&](std::size_t n) {  // bias below n / 2^32
    return static_cast<std::size_t>(((random() >> 32U) * n) >> 32U);
  };
  std::vector<double> means;
  std::vector<double> sample;
  for (int b = 0; b < resamples; ++b) {
    double sum = 0;
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const std::vector<double>& process = rounds[below(rounds.size())];
      sample.resize(process.size());
      for (double& value : sample) {
        value = process[below(process.size())];
      }
      sum += median(sample);
    }
    means.push_back(sum / static_cast<double>(rounds.size()));
  }
  std::sort(means.begin(), means.end());
  const auto percentile = [&](double q) {
    return means[static_cast<std::size_t>(q * static_cast<double>(means.size() - 1) + 0.5)];
  };
  return Interval{percentile((1 - level) / 2), percentile((1 + level) / 2)};
}

RateBound clopper_pearson(int alarms, int runs, double level) {
  if (alarms < 0 || alarms > runs || !(level > 0 && level < 1)) {
    throw Error(
        fmt::format("{} of {} at level {} is no rate: 0 <= alarms <= runs, 0 < level < 1", alarms, runs, level));
  }
  if (runs == 0) {
    return {};
  }
  const double upper = alarms == runs ? 1 : beta_quantile(level, alarms + 1, runs - alarms);
  return {alarms, runs, static_cast<double>(alarms) / runs, upper};
}

}  // namespace diptych::reports
