#include "reports/statistics/distributions.h"

#include <cmath>

#include "framework/core/error.h"

namespace diptych::reports {
namespace {

// I_x(a, b). The continued fraction converges fast for x < (a + 1) / (a + b + 2); beyond that, the symmetry is used.
double incomplete_beta(double x, double a, double b) {
  if (x <= 0) {
    return 0;
  }
  if (x >= 1) {
    return 1;
  }
  if (x > (a + 1) / (a + b + 2)) {
    return 1 - incomplete_beta(1 - x, b, a);
  }
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x)) / a;
  constexpr double tiny = 1e-300;  // Lentz: avoids a division by zero
  double c = 1;
  double d = 1 / (1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m < 1000; ++m) {
    const auto step = [&](double numerator) {
      d = 1 + numerator * d;
      d = 1 / (std::abs(d) < tiny ? tiny : d);
      c = 1 + numerator / c;
      c = std::abs(c) < tiny ? tiny : c;
      fraction *= c * d;
      return std::abs(c * d - 1);
    };
    step(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    if (step(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))) < 1e-15) {
      break;
    }
  }
  return front * fraction;
}

}  // namespace

double beta_cdf(double x, double a, double b) {
  internal_check(a > 0 && b > 0, "a, b > 0");
  return incomplete_beta(x, a, b);
}

double beta_quantile(double p, double a, double b) {
  internal_check(p >= 0 && p <= 1, "0 <= p <= 1");
  double low = 0;
  double high = 1;
  while (high - low > 1e-14) {
    const double middle = 0.5 * (low + high);
    (beta_cdf(middle, a, b) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double student_t_cdf(double t, double degrees) {
  internal_check(degrees > 0, "degrees > 0");
  // Two forms of the same number: each keeps its digits where the other loses them to cancellation.
  const double sum = degrees + t * t;
  const double tail = t * t < degrees ? 0.5 - 0.5 * incomplete_beta(t * t / sum, 0.5, degrees / 2)
                                      : 0.5 * incomplete_beta(degrees / sum, degrees / 2, 0.5);
  return t > 0 ? 1 - tail : tail;
}

double student_t_quantile(double p, double degrees) {
  internal_check(p > 0 && p < 1, "0 < p < 1");
  if (p > 0.5) {
    return -student_t_quantile(1 - p, degrees);
  }
  // Bisection: the quantile is needed a few times per report, so robustness is worth more than speed.
  double low = -1;
  while (student_t_cdf(low, degrees) > p) {
    low *= 2;
  }
  double high = 0;
  for (int i = 0; i < 200 && high - low > 1e-14 * -low; ++i) {
    const double middle = 0.5 * (low + high);
    (student_t_cdf(middle, degrees) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace diptych::reports
