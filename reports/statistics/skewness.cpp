#include "reports/statistics/skewness.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace diptych::reports {

double third_cumulant(std::span<const double> values) {
  if (values.size() < 3) {
    return 0;
  }
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double cubes = 0;
  for (const double v : values) {
    cubes += (v - mean) * (v - mean) * (v - mean);
  }
  return cubes * n / ((n - 1) * (n - 2));
}

double skew_limit(double t, double skewness) {
  double limit = t;
  if (std::abs(skewness) > 1e-8) {  // below this, the difference from t is lost in rounding
    limit = 3 / skewness * (std::cbrt(1 + skewness * (t - skewness / 6)) - 1);
  }
  return std::clamp(limit, t, most_skew_widening * t);
}

double skew_t(double limit, double skewness) {
  const double bend = skewness * limit;
  const double t = limit * (1 + bend / 3 + bend * bend / 27) + skewness / 6;
  return std::clamp(t, limit / most_skew_widening, limit);
}

}  // namespace diptych::reports
