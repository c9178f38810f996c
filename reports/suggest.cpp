#include "reports/suggest.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/text.h"

namespace diptych::reports {
namespace {

/// Levenshtein's distance.
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  std::size_t fewest = name.size() / 3 + 2;
  for (const std::string& candidate : candidates) {
    const std::string_view base = std::string_view(candidate).substr(candidate.find('/') + 1);
    const std::size_t distance = std::min(edits(name, candidate), edits(name, base));
    if (distance < fewest) {
      fewest = distance;
      best = candidate;
    }
  }
  return best;
}

std::string unknown(std::string_view kind, std::string_view name, std::span<const std::string> candidates) {
  const std::string suggestion = nearest(name, candidates);
  if (!suggestion.empty()) {
    return fmt::format("there is no {} '{}'; did you mean '{}'?", kind, printable(name), suggestion);
  }
  return fmt::format("there is no {} '{}'; there is {}", kind, printable(name), fmt::join(candidates, ", "));
}

}  // namespace diptych::reports
