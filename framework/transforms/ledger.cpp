#include "framework/transforms/ledger.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace diptych::graph {
namespace {

/// So many lengths of an axis are no coincidence.
constexpr std::size_t kManyLengths = 4;

std::string duration(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.0f} us", seconds * 1e6) : fmt::format("{:.1f} ms", seconds * 1e3);
}

std::string paid_back(const Compilation& line, double saved_seconds) {
  if (saved_seconds <= 0) {
    return "never";
  }
  const double needed = std::ceil(line.seconds() / saved_seconds);
  const auto calls = static_cast<double>(line.calls);
  return calls >= needed ? "yes" : fmt::format("in {:.0f} calls", needed - calls);
}

std::string places(const std::vector<bool>& of) {
  std::vector<std::size_t> set;
  for (std::size_t i = 0; i < of.size(); ++i) {
    if (of[i]) {
      set.push_back(i);
    }
  }
  return fmt::format("{}", fmt::join(set, ", "));
}

/// `names_results`: there are others, of other results.
std::string describe(const GradientCompilation& gradient, bool names_results) {
  const std::string what =
      fmt::format("  its gradient by input {}{}", places(gradient.wanted),
                  gradient.merged > 0 ? fmt::format(", and {} earlier ones", gradient.merged) : "");
  if (!gradient.uncut.empty()) {
    return fmt::format("{}: computes the forward pass again, {}", what, gradient.uncut);
  }
  std::string backward;
  for (const GradientCompilation::Backward& part : gradient.backwards) {
    backward += fmt::format("{} {}{}", backward.empty() ? "" : ",", part.nodes,
                            names_results ? " (of result " + places(part.given) + ")" : "");
  }
  return fmt::format("{}: forward {} nodes, backward{}, between them {:.1f} KiB", what, gradient.forward_nodes,
                     backward, static_cast<double>(gradient.saved_bytes) / 1024);
}

/// An axis of an argument by which compilations differ, and by nothing else.
struct Axis {
  std::size_t argument;
  int axis;
  std::set<std::int64_t> lengths;
  double seconds = 0;
};

/// That with the most lengths.
std::optional<Axis> most_varied(std::span<const Compilation> ledger) {
  std::optional<Axis> most;
  std::map<std::string, Axis> groups;  // by the argument, the axis, and all other types
  for (const Compilation& line : ledger) {
    for (std::size_t i = 0; i < line.arguments.size(); ++i) {
      for (int axis = 0; axis < line.arguments[i].shape.rank(); ++axis) {
        std::string key = fmt::format("{} {}:", i, axis);
        for (std::size_t k = 0; k < line.arguments.size(); ++k) {
          TensorType type = line.arguments[k];
          if (k == i) {
            type.shape[axis] = 0;
          }
          key += ' ' + to_string(type);
        }
        Axis& group = groups.try_emplace(key, Axis{i, axis, {}}).first->second;
        group.lengths.insert(line.arguments[i].shape[axis]);
        group.seconds += line.seconds();
        if (!most || group.lengths.size() > most->lengths.size()) {
          most = group;
        }
      }
    }
  }
  return most;
}

}  // namespace

std::string advice(std::span<const Compilation> ledger) {
  const std::optional<Axis> found = most_varied(ledger);
  if (!found || found->lengths.size() < kManyLengths) {
    return "";
  }
  std::set<std::uint64_t> padded;
  for (const std::int64_t length : found->lengths) {
    padded.insert(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(length, 1))));
  }
  const bool is_part =
      std::any_of(ledger.begin(), ledger.end(), [](const Compilation& line) { return line.merged > 0; });
  std::string text =
      fmt::format("argument {} came with {}{} lengths of axis {} ({} to {}), each compiled anew: {} in all; ",
                  found->argument, is_part ? "over " : "", found->lengths.size(), found->axis, *found->lengths.begin(),
                  *found->lengths.rbegin(), duration(found->seconds));
  text += padded.size() < found->lengths.size()
              ? fmt::format("pad it to {} ({} graphs)", fmt::join(padded, ", "), padded.size())
              : std::string("pad it to fewer lengths, or call eager for those that are rare");
  return text;
}

std::string to_text(std::span<const Compilation> ledger, std::optional<double> saved_seconds) {
  std::vector<std::vector<std::string>> rows{{"", "cause", "at", "cost", "calls"}};
  if (saved_seconds) {
    rows[0].emplace_back("paid back");
  }
  std::size_t number = 0;
  for (const Compilation& line : ledger) {
    number += std::max<std::uint64_t>(line.merged, 1);
    if (line.merged > 0) {
      rows.push_back({fmt::format("to {}", number), fmt::format("{} others, whose graphs were dropped", line.merged),
                      "", duration(line.seconds()), std::to_string(line.calls)});
      continue;
    }
    rows.push_back({std::to_string(number), line.cause, to_string(line.where), duration(line.seconds()),
                    std::to_string(line.calls)});
    if (saved_seconds) {
      rows.back().push_back(paid_back(line, *saved_seconds));
    }
    if (line.is_dropped) {
      rows.push_back({"", "  dropped for others: JitOptions::capacity"});
    }
    std::set<std::vector<bool>> sets;
    for (const GradientCompilation& gradient : line.gradients) {
      for (const GradientCompilation::Backward& backward : gradient.backwards) {
        sets.insert(backward.given);
      }
    }
    for (const GradientCompilation& gradient : line.gradients) {
      rows.push_back(
          {"", describe(gradient, sets.size() > 1), "", duration(gradient.seconds), std::to_string(gradient.calls)});
      if (const std::uint64_t again = gradient.use->again; again > 0) {
        const char* const what = gradient.uncut.empty()
                                     ? "    of other results, or to have gradients: computes it again"
                                     : "    gradients of it";
        rows.push_back({"", what, "", duration(gradient.use->again_seconds), std::to_string(again)});
      }
    }
  }
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (std::vector<std::string>& row : rows) {
    row.resize(widths.size());
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      text += column + 1 == row.size() ? row[column] + "\n" : fmt::format("{:<{}}  ", row[column], widths[column]);
    }
  }
  const std::string what_to_do = advice(ledger);
  return what_to_do.empty() ? text : text + "\n" + what_to_do + "\n";
}

}  // namespace diptych::graph
