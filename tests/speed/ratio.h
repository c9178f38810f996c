#pragma once

#include <vector>

#include <fmt/format.h>

#include "reports/statistics/statistics.h"

namespace diptych::testing {

struct Ratio {
  double median;
  std::string text;  ///< with its interval
};

/// `count` rounds of workloads::InterleavedRounds: seconds per call, by contender.
template <class InterleavedRounds>
std::vector<std::vector<double>> take_rounds(InterleavedRounds& round, int count) {
  std::vector<std::vector<double>> rounds;
  for (int i = 0; i < count; ++i) {
    rounds.push_back(round());
  }
  return rounds;
}

/// The time of contender `other` divided by that of `contender`, over rounds of seconds per call.
inline Ratio ratio_of(const std::vector<std::vector<double>>& rounds, std::size_t contender, std::size_t other) {
  std::vector<double> effects;
  for (const std::vector<double>& seconds : rounds) {
    effects.push_back(seconds[other] / seconds[contender]);
  }
  const auto interval = reports::sign_interval(effects);
  const double median = reports::median(effects);
  return {median, interval ? fmt::format("{:.2f} [{:.2f}, {:.2f}]", median, interval->low, interval->high)
                           : fmt::format("{:.2f}", median)};
}

inline double median_seconds(const std::vector<std::vector<double>>& rounds, std::size_t contender) {
  std::vector<double> all;
  for (const std::vector<double>& seconds : rounds) {
    all.push_back(seconds[contender]);
  }
  return reports::median(all);
}

}  // namespace diptych::testing
