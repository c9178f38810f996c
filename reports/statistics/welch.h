#pragma once

#include <optional>
#include <span>

#include "reports/statistics/statistics.h"

/// How far a mean has moved, on the log scale, and what is known of the error. Paired and independent samples end in
/// the same three numbers, from which every statement about a change follows. Pure functions.
namespace diptych::reports {

struct Effect {
  double value = 0;           ///< ln(head / base): positive when the head takes longer
  double standard_error = 0;  ///< of `value`
  double degrees = 0;         ///< of freedom
};

/// From one log ratio per pair of processes that ran side by side. Empty for fewer than two.
std::optional<Effect> paired_effect(std::span<const double> log_ratios);

/// From two independent samples of log times, whose variances may differ [Welch 1947; degrees by Satterthwaite 1946].
/// Empty when either has fewer than two values.
std::optional<Effect> independent_effect(std::span<const double> base, std::span<const double> head);

/// Student's t interval of `value` at `level`.
Estimate effect_interval(const Effect& effect, double level);

/// Two-sided p of "the true effect lies within +-margin", tested at the margin's edge on the side of `value`: at most
/// alpha exactly when the interval of level 1 - alpha lies outside the margin.
double effect_p(const Effect& effect, double margin);

/// (t_{1-alpha/2} + t_{power}) * standard error: the smallest change beyond the margin that is found with this power.
double effect_mde(const Effect& effect, double alpha, double power = 0.9);

/// Two one-sided tests at 5 %: the 90 % interval lies inside +-margin [Schuirmann 1987].
bool effect_equivalent(const Effect& effect, double margin);

}  // namespace diptych::reports
