#include "reports/statistics/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/statistics/distributions.h"
#include "reports/statistics/skewness.h"
#include "reports/statistics/welch.h"

namespace diptych::reports {
namespace {

double checked_time(double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0) {
    throw Error(fmt::format("a time of {} s is not a measurement: times are finite and positive", seconds));
  }
  return seconds;
}

struct SkewedMean {
  Effect effect;        // of the untransformed values
  double skewness = 0;  // of the mean; skewness.h
};

std::optional<SkewedMean> skewed_mean(std::span<const double> values) {
  const auto effect = paired_effect(values);
  if (!effect) {
    return std::nullopt;
  }
  const auto n = static_cast<double>(values.size());
  const double error = effect->standard_error;
  return SkewedMean{*effect, error > 0 ? third_cumulant(values) / (n * n * error * error * error) : 0};
}

Estimate exponential(Estimate e) {
  e.value = std::exp(e.value);
  if (e.has_interval()) {
    e.low = std::exp(*e.low);
    e.high = std::exp(*e.high);
  }
  return e;
}

struct CostPoint {
  double numerator, denominator;
};

// Uses the same estimators that the report shows, so that its two cost lines cross at N*.
CostPoint cost_point(std::span<const ProcessCost> processes) {
  const auto estimate = [&](double ProcessCost::*field) {
    std::vector<double> values;
    for (const ProcessCost& p : processes) {
      values.push_back(p.*field);
    }
    const bool positive = std::all_of(values.begin(), values.end(), [](double v) { return v > 0; });
    return positive ? std::exp(mean(log_times(values))) : mean(values);
  };
  return {estimate(&ProcessCost::arm_compile) - estimate(&ProcessCost::base_compile),
          estimate(&ProcessCost::base_seconds) - estimate(&ProcessCost::arm_seconds)};
}

double calls(CostPoint point) {
  if (point.denominator <= 0) {
    return std::numeric_limits<double>::infinity();
  }
  return std::max(0.0, point.numerator / point.denominator);
}

std::optional<double> if_finite(double value) {
  return std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

}  // namespace

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> log_times(std::span<const double> seconds) {
  std::vector<double> out;
  for (const double s : seconds) {
    out.push_back(std::log(checked_time(s)));
  }
  return out;
}

double median(std::span<const double> values) {
  if (values.empty()) {
    throw Error("the median of nothing was asked for");
  }
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

std::vector<double> log_differences(std::span<const double> base_seconds, std::span<const double> arm_seconds) {
  if (base_seconds.size() != arm_seconds.size()) {
    throw Error(fmt::format("rounds are not paired: {} times against {}", base_seconds.size(), arm_seconds.size()));
  }
  std::vector<double> differences;
  for (std::size_t j = 0; j < base_seconds.size(); ++j) {
    differences.push_back(std::log(checked_time(base_seconds[j])) - std::log(checked_time(arm_seconds[j])));
  }
  return differences;
}

double process_effect(std::span<const double> base_seconds, std::span<const double> arm_seconds) {
  return median(log_differences(base_seconds, arm_seconds));
}

Estimate mean_interval(std::span<const double> values, double level) {
  if (values.empty()) {
    throw Error("an interval over no processes was asked for");
  }
  Estimate e{mean(values), {}, {}, level};
  if (const auto m = skewed_mean(values)) {
    const double t = student_t_quantile(0.5 + level / 2, m->effect.degrees);
    e.low = e.value - skew_limit(t, m->skewness) * m->effect.standard_error;
    e.high = e.value + skew_limit(t, -m->skewness) * m->effect.standard_error;
  }
  return e;
}

double mean_p(std::span<const double> values) {
  for (const double v : values) {
    if (!std::isfinite(v)) {
      throw Error(fmt::format("an effect of {} is not a measurement: effects are finite", v));
    }
  }
  const auto m = skewed_mean(values);
  if (!m || m->effect.value == 0) {
    return 1;
  }
  if (m->effect.standard_error == 0) {
    return 0;
  }
  const double towards_zero = m->effect.value > 0 ? m->skewness : -m->skewness;
  const double limit = std::abs(m->effect.value) / m->effect.standard_error;
  return std::min(1.0, 2 * student_t_cdf(-skew_t(limit, towards_zero), m->effect.degrees));
}

Estimate ratio_estimate(std::span<const double> effects, double level) {
  return exponential(mean_interval(effects, level));
}

Estimate time_estimate(std::span<const double> process_seconds, double level) {
  return exponential(mean_interval(log_times(process_seconds), level));
}

Estimate cost_estimate(std::span<const double> process_seconds, double level) {
  for (const double s : process_seconds) {
    if (!std::isfinite(s) || s < 0) {
      throw Error(fmt::format("a compile time of {} s is not a measurement: it is finite and not negative", s));
    }
  }
  const bool positive = std::all_of(process_seconds.begin(), process_seconds.end(), [](double s) { return s > 0; });
  return positive ? time_estimate(process_seconds, level) : mean_interval(process_seconds, level);
}

std::optional<double> minimum_detectable_effect(std::span<const double> effects, double alpha, double power) {
  const auto m = skewed_mean(effects);
  if (!m) {
    return std::nullopt;
  }
  const double t = student_t_quantile(1 - alpha / 2, m->effect.degrees);
  const double limit = std::max(skew_limit(t, m->skewness), skew_limit(t, -m->skewness));
  return (limit + student_t_quantile(power, m->effect.degrees)) * m->effect.standard_error;
}

bool equivalent(std::span<const double> effects, double margin) {
  const Estimate e = mean_interval(effects, 0.90);
  const double bound = std::log1p(margin);
  return e.has_interval() && *e.low > -bound && *e.high < bound;
}

BreakEven break_even(std::span<const ProcessCost> processes, std::uint64_t seed, double level, int resamples) {
  std::vector<double> saved;
  double log_speedup = 0;
  for (const ProcessCost& p : processes) {
    saved.push_back(checked_time(p.base_seconds) - checked_time(p.arm_seconds));
    log_speedup += std::log(p.base_seconds / p.arm_seconds);
  }
  const CostPoint point = cost_point(processes);
  const Estimate denominator = mean_interval(saved, level);
  if (point.denominator <= 0 || (denominator.has_interval() && *denominator.low <= 0)) {
    return {.uncertain = log_speedup > 0};
  }
  BreakEven result{.reached = true, .calls = calls(point)};
  if (processes.size() < 2) {
    return result;
  }
  std::mt19937_64 random(seed);
  std::vector<double> draws;
  std::vector<ProcessCost> sample(processes.size());
  for (int b = 0; b < resamples; ++b) {
    for (ProcessCost& p : sample) {
      p = processes[random() % processes.size()];  // the bias of % is below 2^-60; the result is the same everywhere
    }
    draws.push_back(calls(cost_point(sample)));
  }
  std::sort(draws.begin(), draws.end());
  const auto percentile = [&](double q) {
    return draws[static_cast<std::size_t>(q * static_cast<double>(draws.size() - 1) + 0.5)];
  };
  result.low = if_finite(percentile((1 - level) / 2));
  result.high = if_finite(percentile((1 + level) / 2));
  return result;
}

}  // namespace diptych::reports
