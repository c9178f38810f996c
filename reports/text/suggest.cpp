#include "reports/text/suggest.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/text/text.h"

namespace diptych::reports {
namespace {

/// Letters added, removed or changed, and neighbours swapped: optimal string alignment [Boytsov 2011].
std::size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  std::iota(table[0].begin(), table[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    table[i][0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
      }
    }
  }
  return table[a.size()][b.size()];
}

/// One edit in a word of up to four letters, two in up to seven: with more, any short word is near any other.
std::size_t most_edits(std::string_view name, std::string_view candidate) {
  return (std::max(name.size(), candidate.size()) + 1) / 3;
}

/// The hyphens of an option say nothing about which one is meant.
std::string_view without_hyphens(std::string_view name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

}  // namespace

std::string nearest(std::string_view name, std::span<const std::string> candidates) {
  constexpr std::size_t kLongest = 200;  // no name is longer, and the table grows with the length
  const std::string_view typed = without_hyphens(name);
  std::string best;
  std::size_t fewest = std::string::npos;
  for (const std::string& candidate : candidates) {
    const std::string_view whole = without_hyphens(candidate);
    for (const std::string_view part : {whole, whole.substr(whole.find('/') + 1)}) {
      if (typed.size() > kLongest || candidate == name) {
        continue;  // don't suggest the name that was just refused
      }
      const std::size_t distance = edits(typed, part);
      if (distance <= most_edits(typed, part) && distance < fewest) {
        fewest = distance;
        best = candidate;
      }
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
