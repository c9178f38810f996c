#pragma once

#include <span>

/// The effect of skewed data on Student's t. The mean and its standard error then depend on each other: samples that
/// miss the long tail have both too low, and the t interval ends too early on the tail's side.
namespace diptych::reports {

/// No limit is further from the estimate than this many times Student's, because the skewness of a few values is itself
/// uncertain.
inline constexpr double most_skew_widening = 1.75;

/// k-statistic: the unbiased estimate of the third central moment; 0 for fewer than three values.
double third_cumulant(std::span<const double> values);

/// How many standard errors the lower limit of the interval lies below the estimate, where Student's would lie t > 0 of
/// them below. `skewness` is that of the estimate: its third cumulant over the cube of its standard error (for a mean
/// of n values, that of the values / sqrt(n)). For the upper limit, pass -skewness. The result is the larger of t and
/// of the T that solves
///     T + skewness T^2 / 3 + skewness^2 T^3 / 27 + skewness / 6 = t,
/// which is monotone [Hall 1992], but at most `most_skew_widening` t. It is never below t.
double skew_limit(double t, double skewness);

/// The inverse: the t whose limit is `limit` > 0 standard errors away. `skew_limit(t, s) <= T` exactly when
/// `t <= skew_t(T, s)`, so that an interval excludes what its test rejects.
double skew_t(double limit, double skewness);

}  // namespace diptych::reports
