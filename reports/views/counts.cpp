#include "reports/views/counts.h"

#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/runtime/exact_metrics.h"
#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"

namespace diptych::reports {
namespace {

const std::vector<std::string>& header() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"workload", "arm"};
    for (const runtime::ExactMetric& metric : runtime::exact_metrics()) {
      if (metric.column != nullptr) {
        all.emplace_back(metric.column);
      }
    }
    all.insert(all.end(), {"instructions", "of eager"});
    return all;
  }();
  return names;
}

std::string count_text(const std::optional<double>& count) { return count ? format_count(std::round(*count)) : "-"; }

/// The row of an arm. `eager`: the instructions of eager, if known.
std::vector<std::string> fields_of(const Cell& cell, const Arm& arm, const std::optional<double>& eager) {
  std::vector<std::string> fields = {cell.workload(), arm.name()};
  for (const runtime::ExactMetric& metric : runtime::exact_metrics()) {
    if (metric.column != nullptr) {
      const auto count = arm.exact(metric.name);
      fields.push_back(metric.is_bytes && count ? format_bytes(*count) : count_text(count));
    }
  }
  const auto instructions = arm.instructions().value();
  fields.push_back(count_text(instructions));
  fields.push_back(instructions && eager && *eager > 0 ? format_percent(*instructions / *eager) : "-");
  return fields;
}

std::vector<std::vector<std::string>> count_rows(const Cell& cell) {
  const auto eager = cell.arm("eager").instructions().value();
  std::vector<std::vector<std::string>> rows;
  for (const Arm arm : cell.arms()) {
    rows.push_back(fields_of(cell, arm, eager));
  }
  return rows;
}

bool agrees(const Cell& cell) { return cell.validity().agree(); }

}  // namespace

bool shows_counts(const Run& run) {
  bool counted = !run.is_timed();
  for (const Cell cell : run.cells()) {
    for (const Arm arm : cell.arms()) {
      counted = counted || static_cast<bool>(arm.instructions());
    }
  }
  return counted;
}

std::string render_counts(const Run& run, const TableOptions& options) {
  TextTable table(header());
  std::string invalid;
  for (const Cell cell : run.cells()) {
    if (!agrees(cell)) {
      invalid += fmt::format("{}: INVALID, {}\n", printable(cell.workload()), printable(cell.validity().reason()));
      continue;
    }
    for (std::vector<std::string> fields : count_rows(cell)) {
      for (std::string& field : fields) {
        field = printable(field);
      }
      table.add(std::move(fields));
    }
  }
  return (table.empty() ? "" : table.render(options.colour, options.width)) + invalid;
}

std::string markdown_counts(const Run& run) {
  std::string out = fmt::format("| {} |\n|---|---|--:|--:|--:|--:|--:|--:|\n", fmt::join(header(), " | "));
  for (const Cell cell : run.cells()) {
    for (const std::vector<std::string>& fields : count_rows(cell)) {
      out += "|";
      for (const std::string& field : fields) {
        out += fmt::format(" {} |", escape_markdown(shorten(printable(field), 200)));
      }
      out += "\n";
    }
  }
  return out;
}

}  // namespace diptych::reports
