#include "reports/html/usage.h"

#include "reports/html/fields.h"
#include "reports/run/run.h"
#include "reports/views/usage_views.h"

namespace diptych::reports {

std::string html_usage(const Cell& cell) {
  std::vector<std::string> names = {"arm"};
  for (const UsageMetric& metric : usage_metrics()) {
    names.emplace_back(metric.title);
  }
  HtmlTable table(names);
  for (const Arm arm : cell.arms()) {
    if (!has_usage(arm)) {
      continue;
    }
    std::vector<HtmlField> row = {{arm.name()}};
    for (const UsageMetric& metric : usage_metrics()) {
      row.push_back({usage_text(arm, metric), "", usage_value(arm, metric)});
    }
    table.row(std::move(row));
  }
  if (table.empty()) {
    return "";
  }
  const std::string missing = missing_counters_of(cell);
  return folded("Memory and counters",
                missing.empty() ? "advisory: they depend on what else the process holds" : missing, table.finish());
}

}  // namespace diptych::reports
