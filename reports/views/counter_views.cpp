#include "reports/views/counter_views.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"

namespace diptych::reports {
namespace {

bool counts_anything(const AlignedRow& row) {
  return std::any_of(row.arms.begin(), row.arms.end(), [](const ArmOfRow& arm) {
    return std::any_of(arm.counts.begin(), arm.counts.end(), [](double count) { return count != 0; });
  });
}

}  // namespace

std::string capability_text(const Capability& capability) {
  std::string text;
  if (!capability.counted.empty()) {
    text += fmt::format("counters of ops: {}\n", fmt::join(capability.counted, ", "));
  }
  if (!capability.missing.empty()) {
    text += fmt::format("not counted here: {} ({})\n", fmt::join(capability.missing, ", "), capability.reason);
  }
  if (std::find(capability.missing.begin(), capability.missing.end(), "instructions") != capability.missing.end()) {
    text += "-> `diptych run W --metric instructions` counts the instructions of whole calls with callgrind\n";
  }
  return text;
}

std::string render_counts(const AlignedProfile& profile, const TableOptions& options, std::size_t most) {
  std::vector<std::size_t> arms;  // that were counted
  for (std::size_t arm = 0; arm < profile.arms.size(); ++arm) {
    if (std::any_of(profile.rows.begin(), profile.rows.end(),
                    [&](const AlignedRow& row) { return !row.arms[arm].counts.empty(); })) {
      arms.push_back(arm);
    }
  }
  if (arms.empty()) {
    return "";
  }
  std::vector<std::string> header = {std::string(profile_groupings()[static_cast<std::size_t>(profile.by)])};
  for (const std::string& counter : profile.counters) {
    for (const std::size_t arm : arms) {
      header.push_back(fmt::format("{} {}", counter, printable(profile.arms[arm])));
    }
  }
  TextRows rows = {std::move(header)};
  std::size_t left = 0;
  for (const AlignedRow& row : profile.rows) {
    if (!counts_anything(row)) {
      continue;
    }
    if (most > 0 && rows.size() > most) {
      ++left;
      continue;
    }
    constexpr int kNameColumns = 44;
    std::vector<std::string> fields = {shorten_middle(printable(row.name), kNameColumns)};
    for (std::size_t counter = 0; counter < profile.counters.size(); ++counter) {
      for (const std::size_t arm : arms) {
        const std::vector<double>& counts = row.arms[arm].counts;
        fields.push_back(counter < counts.size() ? format_count(counts[counter]) : "-");
      }
    }
    rows.push_back(std::move(fields));
  }
  std::vector<Align> columns(rows.front().size(), Align::right);
  columns.front() = Align::left;
  std::string out;
  for (const std::string& line : aligned_lines(rows, columns)) {
    out += shorten(line, options.width) + "\n";
  }
  return out + (left > 0 ? fmt::format("and {} more rows\n", left) : "");
}

}  // namespace diptych::reports
