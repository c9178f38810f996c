#include "reports/usage.h"

#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/html_fields.h"
#include "reports/json_access.h"
#include "reports/statistics.h"
#include "reports/text.h"
#include "reports/text_table.h"

namespace diptych::reports {
namespace {

/// The entries of an arm in the cell's processes.
std::vector<const Json*> entries_of(const Json& cell, const std::string& arm) {
  std::vector<const Json*> entries;
  for (const Json& process : list(cell, "processes")) {
    for (const Json& entry : list(process, "arms")) {
      if (text(entry, "name") == arm) {
        entries.push_back(&entry);
      }
    }
  }
  return entries;
}

std::optional<double> median_of(const std::vector<const Json*>& entries, const UsageMetric& metric) {
  std::vector<double> values;
  for (const Json* entry : entries) {
    const auto value = number(member(*entry, metric.group), metric.field);
    if (value && std::isfinite(*value)) {
      values.push_back(*value);
    }
  }
  return values.empty() ? std::nullopt : std::optional(median(values));
}

std::optional<double> value_of(const Json& arm, const UsageMetric& metric) {
  return number(member(arm, metric.group), metric.field);
}

std::string value_text(const Json& arm, const UsageMetric& metric) {
  const auto value = value_of(arm, metric);
  return !value                                     ? "-"
         : metric.unit == std::string_view("bytes") ? format_bytes(*value)
                                                    : format_count(*value >= 100 ? std::round(*value) : *value);
}

bool has_counts(const Json& run) {
  for (const Json& cell : list(run, "cells")) {
    for (const Json& arm : list(cell, "arms")) {
      for (const UsageMetric& metric : usage_metrics()) {
        if (metric.group == std::string_view("counters") && value_of(arm, metric)) {
          return true;
        }
      }
    }
  }
  return false;
}

/// Why there are no hardware counters; empty if there are some, or nobody looked.
std::string missing_counters(const Json& run) {
  if (has_counts(run)) {
    return "";
  }
  for (const Json& cell : list(run, "cells")) {
    for (const Json& arm : list(cell, "arms")) {
      if (const std::string reason = text(member(arm, "counters"), "reason"); !reason.empty()) {
        return "No hardware counters: " + shorten(printable(reason), 300);
      }
    }
  }
  return "";
}

/// One row an arm, of the metrics of `group`, or of all.
std::vector<std::string> header(std::string_view group) {
  std::vector<std::string> names = {"workload", "arm"};
  for (const UsageMetric& metric : usage_metrics()) {
    if (group.empty() || metric.group == group) {
      names.emplace_back(metric.title);
    }
  }
  return names;
}

std::vector<std::string> fields_of(const Json& cell, const Json& arm, std::string_view group) {
  std::vector<std::string> fields = {text(cell, "workload"), text(arm, "name")};
  for (const UsageMetric& metric : usage_metrics()) {
    if (group.empty() || metric.group == group) {
      fields.push_back(value_text(arm, metric));
    }
  }
  return fields;
}

bool was_recorded(const Json& arm) { return member(arm, "memory").is_object() || member(arm, "counters").is_object(); }

}  // namespace

const std::vector<UsageMetric>& usage_metrics() {
  static const std::vector<UsageMetric> metrics = {
      {"memory", "peak_rss_bytes", "peak_rss_bytes", "bytes", "peak RSS"},
      {"memory", "page_faults", "page_faults", "count", "page faults"},
      {"counters", "cycles", "cycles", "count", "cycles"},
      {"counters", "instructions", "hardware_instructions", "count", "instructions"},
      {"counters", "cache_misses", "cache_misses", "count", "cache misses"},
      {"counters", "branch_misses", "branch_misses", "count", "branch misses"}};
  return metrics;
}

std::map<std::string, std::optional<double>> usage_of(const nlohmann::json& cell, const std::string& arm) {
  const std::vector<const Json*> entries = entries_of(cell, arm);
  std::map<std::string, std::optional<double>> values;
  for (const UsageMetric& metric : usage_metrics()) {
    values[metric.name] = median_of(entries, metric);
  }
  return values;
}

void summarise_usage(nlohmann::json& cell) {
  for (Json& arm : cell["arms"]) {
    const std::vector<const Json*> entries = entries_of(cell, text(arm, "name"));
    for (const char* group : {"memory", "counters"}) {
      arm.erase(group);
      for (const Json* entry : entries) {
        const Json& recorded = member(*entry, group);
        const std::string reason = text(recorded, "reason");
        if (recorded.is_object() && !reason.empty() && !member(arm, group).contains("reason")) {
          arm[group]["reason"] = reason;
        }
        for (const UsageMetric& metric : usage_metrics()) {
          if (recorded.is_object() && metric.group == std::string_view(group)) {
            arm[group][metric.field] = to_json(median_of(entries, metric));
          }
        }
      }
    }
  }
}

std::string render_usage(const nlohmann::json& run, const TableOptions& options) {
  if (!has_counts(run)) {
    const std::string missing = missing_counters(run);
    return missing.empty() ? "" : shorten(missing, options.width) + "\n";
  }
  TextTable table(header("counters"));
  for (const Json& cell : list(run, "cells")) {
    for (const Json& arm : list(cell, "arms")) {
      std::vector<std::string> fields = fields_of(cell, arm, "counters");
      for (std::string& field : fields) {
        field = shorten(printable(field), 44);
      }
      if (was_recorded(arm)) {
        table.add(std::move(fields));
      }
    }
  }
  return "Hardware counters, per call:\n" + table.render(options.colour, options.width);
}

std::string markdown_usage(const nlohmann::json& run) {
  std::string rows;
  for (const Json& cell : list(run, "cells")) {
    for (const Json& arm : list(cell, "arms")) {
      if (!was_recorded(arm)) {
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

std::string html_usage(const nlohmann::json& cell) {
  std::vector<std::string> names = header("");
  names.erase(names.begin());
  HtmlTable table(names);
  std::string reason;
  for (const Json& arm : list(cell, "arms")) {
    if (!was_recorded(arm)) {
      continue;
    }
    std::vector<HtmlField> row = {{text(arm, "name")}};
    for (const UsageMetric& metric : usage_metrics()) {
      row.push_back({value_text(arm, metric), "", value_of(arm, metric)});
    }
    table.row(std::move(row));
  }
  if (table.empty()) {
    return "";
  }
  const std::string missing = missing_counters({{"cells", {cell}}});
  return folded("Memory and counters",
                missing.empty() ? "advisory: they depend on what else the process holds" : missing, table.finish());
}

}  // namespace diptych::reports
