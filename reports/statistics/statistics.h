#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// The definitions behind every number of a run. The unit of replication is a process; rounds inside a process are
/// paired, with one time per arm [Kalibera & Jones 2013]. Pure functions; times are in seconds, and throw
/// diptych::Error unless they are finite and positive.
namespace diptych::reports {

/// An estimate with its interval over processes. One process has no interval: low and high are empty.
struct Estimate {
  double value = 0;
  std::optional<double> low, high;
  double level = 0.95;

  bool has_interval() const { return low && high; }
  bool excludes(double point) const { return has_interval() && (*low > point || *high < point); }
};

inline std::optional<double> value_of(const std::optional<Estimate>& estimate) {
  return estimate ? std::optional(estimate->value) : std::nullopt;
}

/// Throws Error on an empty span.
double median(std::span<const double> values);
/// The span must not be empty.
double mean(std::span<const double> values);

/// The logarithm of each time; throws Error unless all are finite and positive.
std::vector<double> log_times(std::span<const double> seconds);

/// d_j = ln(base) - ln(arm) of every round of a process. Both spans hold the same rounds.
std::vector<double> log_differences(std::span<const double> base_seconds, std::span<const double> arm_seconds);

/// Process effect m_i = median over rounds of ln(base) - ln(arm); positive when the arm is faster. Both spans hold
/// the same rounds.
double process_effect(std::span<const double> base_seconds, std::span<const double> arm_seconds);

/// Interval for the mean of one value per process: Student's t, wider on the side of a long tail (skewness.h). It
/// covers the mean over all processes that might have been started, not their median.
Estimate mean_interval(std::span<const double> values, double level = 0.95);

/// Two-sided p of "the mean over processes is zero": at most alpha exactly when the 1 - alpha `mean_interval` excludes
/// zero. 1 for fewer than two processes. Without any spread: 1 if the mean is zero, otherwise 0. Throws Error for NaN
/// and infinite values.
double mean_p(std::span<const double> values);

/// exp of the mean of the process effects, the interval taken on the log scale.
Estimate ratio_estimate(std::span<const double> effects, double level = 0.95);

/// Geometric mean of one positive time per process (the process's median round), interval on the log scale.
Estimate time_estimate(std::span<const double> process_seconds, double level = 0.95);

/// For compile times: `time_estimate` if all are positive; the plain mean if some are zero (nothing to compile).
Estimate cost_estimate(std::span<const double> process_seconds, double level = 0.95);

/// (c + t_{power, P-1}) * s_m / sqrt(P): the smallest effect in either direction, on the log scale, that this many
/// processes with this spread would have found. c is the further limit of the 1 - alpha `mean_interval` in standard
/// errors, which is t_{1-alpha/2, P-1} if nothing is skewed. Empty for fewer than two processes.
std::optional<double> minimum_detectable_effect(std::span<const double> effects, double alpha = 0.05,
                                                double power = 0.9);

/// Two one-sided tests at 5 %: the 90 % interval lies inside +-ln(1 + margin) [Schuirmann 1987].
bool equivalent(std::span<const double> effects, double margin = 0.02);

/// Step-down adjusted p-values [Holm 1979], in the given order: rejecting those of at most alpha keeps the probability
/// of any false rejection below alpha. Throws Error unless each p lies in [0, 1].
std::vector<double> holm(std::span<const double> p);

struct Interval {
  double low, high;
};

/// Distribution-free interval for the median over processes, from order statistics: the narrowest symmetric pair whose
/// coverage is at least `level`. Empty for fewer than six values, for which no pair reaches 95 %.
std::optional<Interval> sign_interval(std::span<const double> effects, double level = 0.95);

/// Percentile interval of the mean of process medians, from a bootstrap of processes, then of whole rounds within each.
/// One vector of log differences per process; the same seed gives the same interval. Empty for fewer than two
/// processes.
std::optional<Interval> bootstrap_interval(std::span<const std::vector<double>> rounds, std::uint64_t seed,
                                           double level = 0.95, int resamples = 1000);

/// Where the variance of single rounds comes from, as shares that add up to 1: `between` processes (which more rounds
/// cannot average out) and `within` them. One-way random-effects components, with the one between processes not below
/// zero [Kalibera & Jones 2013, section 6]. Processes without a round are left out; empty for fewer than two processes,
/// if none has two rounds, and if there is no variance.
struct VarianceShares {
  double between = 0, within = 0;
};
std::optional<VarianceShares> variance_shares(std::span<const std::vector<double>> rounds);

/// Lag-1 autocorrelation of rounds inside a process, pooled over processes, about each process's own mean, and
/// corrected for that mean, so that independent rounds give 0 on average and not -1/rounds. Empty if no process has
/// three rounds or nothing varies.
std::optional<double> round_autocorrelation(std::span<const std::vector<double>> rounds);

/// How often an event that should not happen occurred. `upper`: one-sided Clopper-Pearson bound; 0 of 299 gives 1 % at
/// 95 %.
struct RateBound {
  int alarms = 0, runs = 0;
  double rate = 0, upper = 1;
};
/// Throws Error unless 0 <= alarms <= runs and 0 < level < 1. Without runs: rate 0, upper 1.
RateBound clopper_pearson(int alarms, int runs, double level = 0.95);

/// One process's times for paying `compile` once and `seconds` for each call.
struct ProcessCost {
  double base_seconds, arm_seconds;
  double base_compile, arm_compile;
};

struct BreakEven {
  bool reached = false;
  /// Not reached, although the arm is the faster one by the `time_estimate`s: only the interval of the saving contains
  /// zero.
  bool uncertain = false;
  std::optional<double> calls = {}, low = {}, high = {};
};

/// N* = (C_arm - C_base) / (t_base - t_arm), with a percentile interval from a joint bootstrap of whole processes (the
/// same seed gives the same interval). Not reached unless the interval of t_base - t_arm lies above zero. `high` is
/// empty if the bootstrap has no upper bound.
BreakEven break_even(std::span<const ProcessCost> processes, std::uint64_t seed, double level = 0.95,
                     int resamples = 4000);

}  // namespace diptych::reports
