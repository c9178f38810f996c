#include "workloads/harness/time_left.h"

#include <algorithm>
#include <numeric>

namespace diptych::workloads {

void TimeLeft::add(const std::string& workload, double seconds) {
  const auto [entry, is_first] = taken_.try_emplace(workload, Taken{seconds, {}});
  if (!is_first) {
    entry->second.later.push_back(seconds);
  }
}

/// For a cell that only the first process has measured, scales the first time down by the ratio of the cells that a
/// later process has measured too.
double TimeLeft::expected(const Taken& taken) const {
  if (!taken.later.empty()) {
    return std::accumulate(taken.later.begin(), taken.later.end(), 0.0) / static_cast<double>(taken.later.size());
  }
  double first = 0;
  double later = 0;
  for (const auto& [workload, other] : taken_) {
    if (!other.later.empty()) {
      first += other.first;
      later += expected(other);
    }
  }
  return first > 0 ? taken.first * std::min(1.0, later / first) : taken.first;
}

std::optional<double> TimeLeft::seconds(const std::vector<std::string>& cells, double elapsed) const {
  double sum = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto taken = taken_.find(cells[i]);
    if (taken == taken_.end()) {
      return std::nullopt;
    }
    sum += std::max(0.0, expected(taken->second) - (i == 0 ? elapsed : 0.0));
  }
  return sum;
}

}  // namespace diptych::workloads
