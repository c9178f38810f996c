#include "reports/views/usage_views.h"

#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"

namespace diptych::reports {
namespace {

/// The header of a table with one row per arm: the metrics of `group`, or all of them.
std::vector<std::string> header(std::string_view group) {
  std::vector<std::string> names = {"workload", "arm"};
  for (const UsageMetric& metric : usage_metrics()) {
    if (group.empty() || metric.group == group) {
      names.emplace_back(metric.title);
    }
  }
  return names;
}

std::vector<std::string> fields_of(const Cell& cell, const Arm& arm, std::string_view group) {
  std::vector<std::string> fields = {cell.workload(), arm.name()};
  for (const UsageMetric& metric : usage_metrics()) {
    if (group.empty() || metric.group == group) {
      fields.push_back(usage_text(arm, metric));
    }
  }
  return fields;
}

}  // namespace

std::string usage_text(const Arm& arm, const UsageMetric& metric) {
  const auto value = usage_value(arm, metric);
  return !value                                     ? "-"
         : metric.unit == std::string_view("bytes") ? format_bytes(*value)
                                                    : format_count(*value >= 100 ? std::round(*value) : *value);
}

std::string render_usage(const Run& run, const TableOptions& options) {
  if (!has_counters(run)) {
    const std::string missing = missing_counters(run);
    return missing.empty() ? "" : shorten(missing, options.width) + "\n";
  }
  TextTable table(header("counters"));
  for (const Cell cell : run.cells()) {
    for (const Arm arm : cell.arms()) {
      std::vector<std::string> fields = fields_of(cell, arm, "counters");
      for (std::string& field : fields) {
        field = shorten(printable(field), 44);
      }
      if (has_usage(arm)) {
        table.add(std::move(fields));
      }
    }
  }
  return "Hardware counters, per call:\n" + table.render(options.colour, options.width);
}

std::string markdown_usage(const Run& run) {
  std::string rows;
  for (const Cell cell : run.cells()) {
    for (const Arm arm : cell.arms()) {
      if (!has_usage(arm)) {
        continue;
      }
      rows += "|";
      for (const std::string& field : fields_of(cell, arm, "")) {
        rows += fmt::format(" {} |", escape_markdown(shorten(printable(field), 200)));
      }
      rows += "\n";
    }
  }
  if (rows.empty()) {
    return "";
  }
  std::string out = "<details><summary>Memory and hardware counters, per call</summary>\n\n|";
  std::string rule = "|";
  for (const std::string& name : header("")) {
    out += fmt::format(" {} |", name);
    rule += rule.size() < 8 ? "---|" : "--:|";
  }
  const std::string missing = missing_counters(run);
  return out + "\n" + rule + "\n" + rows + (missing.empty() ? "" : "\n" + escape_markdown(missing) + "\n") +
         "\n</details>\n\n";
}

}  // namespace diptych::reports
