#pragma once

namespace diptych::reports {

/// P(T <= t) for Student's t with `degrees` > 0 degrees of freedom, by the regularised incomplete beta function.
/// Source: DLMF 8.17.22 (continued fraction), Lentz's method.
double student_t_cdf(double t, double degrees);

/// The t with P(T <= t) = p, 0 < p < 1; throws InternalError otherwise. Absolute error below 1e-9 for |t| < 1e3.
double student_t_quantile(double p, double degrees);

/// I_x(a, b), the regularised incomplete beta function: P(X <= x) for a beta distribution. a, b > 0.
double beta_cdf(double x, double a, double b);

/// The x with I_x(a, b) = p, 0 <= p <= 1, by bisection to 1e-14.
double beta_quantile(double p, double a, double b);

}  // namespace diptych::reports
