// Where the scatter of rounds comes from.

#include <algorithm>
#include <numeric>

#include "reports/statistics/statistics.h"

namespace diptych::reports {
namespace {

double squares_about(const std::vector<double>& values, double centre) {
  double sum = 0;
  for (const double v : values) {
    sum += (v - centre) * (v - centre);
  }
  return sum;
}

}  // namespace

std::optional<VarianceShares> variance_shares(std::span<const std::vector<double>> rounds) {
  std::vector<double> means;
  double squares = 0;
  double degrees = 0;
  double inverse_counts = 0;
  for (const std::vector<double>& process : rounds) {
    if (process.empty()) {
      continue;
    }
    const auto n = static_cast<double>(process.size());
    means.push_back(mean(process));
    squares += squares_about(process, means.back());
    degrees += n - 1;
    inverse_counts += 1 / n;
  }
  if (means.size() < 2 || degrees == 0) {
    return std::nullopt;
  }
  const auto processes = static_cast<double>(means.size());
  const double within = squares / degrees;
  const double of_means = squares_about(means, mean(means)) / (processes - 1);
  // A mean of n rounds scatters by within / n even when processes are alike: that part is not between processes.
  const double between = std::max(0.0, of_means - within * inverse_counts / processes);
  const double total = between + within;
  return total > 0 ? std::optional<VarianceShares>({between / total, within / total}) : std::nullopt;
}

std::optional<double> round_autocorrelation(std::span<const std::vector<double>> rounds) {
  double products = 0;
  double squares = 0;
  double bias = 0;     // the expected sum of products of independent rounds, in units of the variance
  double degrees = 0;  // and that of squares
  for (const std::vector<double>& process : rounds) {
    if (process.size() < 3) {
      continue;
    }
    const auto n = static_cast<double>(process.size());
    const double centre = mean(process);
    squares += squares_about(process, centre);
    for (std::size_t j = 1; j < process.size(); ++j) {
      products += (process[j - 1] - centre) * (process[j] - centre);
    }
    bias -= (n - 1) / n;
    degrees += n - 1;
  }
  if (!(squares > 0)) {
    return std::nullopt;
  }
  return std::clamp(products / squares - bias / degrees, -1.0, 1.0);
}

}  // namespace diptych::reports
