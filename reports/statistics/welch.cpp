#include "reports/statistics/welch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "reports/statistics/distributions.h"

namespace diptych::reports {
namespace {

struct Moments {
  double mean = 0;
  double variance = 0;  // of the sample, divided by n - 1
  double count = 0;
};

Moments moments(std::span<const double> values) {
  Moments result;
  result.count = static_cast<double>(values.size());
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / result.count;
  for (const double value : values) {
    result.variance += (value - result.mean) * (value - result.mean) / (result.count - 1);
  }
  return result;
}

}  // namespace

std::optional<Effect> paired_effect(std::span<const double> log_ratios) {
  if (log_ratios.size() < 2) {
    return std::nullopt;
  }
  const Moments m = moments(log_ratios);
  return Effect{m.mean, std::sqrt(m.variance / m.count), m.count - 1};
}

std::optional<Effect> independent_effect(std::span<const double> base, std::span<const double> head) {
  if (base.size() < 2 || head.size() < 2) {
    return std::nullopt;
  }
  const Moments a = moments(base);
  const Moments b = moments(head);
  const double share_a = a.variance / a.count;
  const double share_b = b.variance / b.count;
  const double total = share_a + share_b;
  const double degrees = total > 0
                             ? total * total / (share_a * share_a / (a.count - 1) + share_b * share_b / (b.count - 1))
                             : a.count + b.count - 2;
  return Effect{b.mean - a.mean, std::sqrt(total), degrees};
}

Estimate effect_interval(const Effect& effect, double level) {
  const double half = student_t_quantile(0.5 + level / 2, effect.degrees) * effect.standard_error;
  return {effect.value, effect.value - half, effect.value + half, level};
}

double effect_p(const Effect& effect, double margin) {
  const double beyond = std::abs(effect.value) - margin;
  if (effect.standard_error == 0) {
    return beyond > 0 ? 0 : 1;
  }
  return std::min(1.0, 2 * student_t_cdf(-beyond / effect.standard_error, effect.degrees));
}

double effect_mde(const Effect& effect, double alpha, double power) {
  return (student_t_quantile(1 - alpha / 2, effect.degrees) + student_t_quantile(power, effect.degrees)) *
         effect.standard_error;
}

bool effect_equivalent(const Effect& effect, double margin) {
  const Estimate interval = effect_interval(effect, 0.90);
  return *interval.low > -margin && *interval.high < margin;
}

}  // namespace diptych::reports
