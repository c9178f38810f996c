#include "reports/counts.h"

#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/format.h"
#include "reports/json_access.h"
#include "reports/text.h"
#include "reports/text_table.h"

namespace diptych::reports {
namespace {

const std::vector<std::string>& header() {
  static const std::vector<std::string> names = {"workload",    "arm",  "nodes",        "dispatches",
                                                 "allocations", "peak", "instructions", "of eager"};
  return names;
}

std::string count_text(const std::optional<double>& count) { return count ? format_count(std::round(*count)) : "-"; }

std::optional<double> instructions_of(const Json& arm) { return number(member(arm, "instructions"), "value"); }

/// The row of an arm; `eager`: its instructions, if known.
std::vector<std::string> fields_of(const Json& cell, const Json& arm, const std::optional<double>& eager) {
  const Json& exact = member(arm, "exact");
  const auto peak = number(exact, "peak_bytes");
  const auto instructions = instructions_of(arm);
  return {text(cell, "workload"),
          text(arm, "name"),
          count_text(number(exact, "nodes")),
          count_text(number(exact, "dispatches")),
          count_text(number(exact, "allocations")),
          peak ? format_bytes(*peak) : "-",
          count_text(instructions),
          instructions && eager && *eager > 0 ? format_percent(*instructions / *eager) : "-"};
}

std::vector<std::vector<std::string>> count_rows(const Json& cell) {
  std::optional<double> eager;
  for (const Json& arm : list(cell, "arms")) {
    if (text(arm, "name") == "eager") {
      eager = instructions_of(arm);
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const Json& arm : list(cell, "arms")) {
    rows.push_back(fields_of(cell, arm, eager));
  }
  return rows;
}

bool agrees(const Json& cell) { return member(member(cell, "validity"), "agree") == true; }

}  // namespace

bool shows_counts(const nlohmann::json& run) {
  bool counted = !is_timed(run);
  for (const Json& cell : list(run, "cells")) {
    for (const Json& arm : list(cell, "arms")) {
      counted = counted || member(arm, "instructions").is_object();
    }
  }
  return counted;
}

std::string render_counts(const nlohmann::json& run, const TableOptions& options) {
  TextTable table(header());
  std::string invalid;
  for (const Json& cell : list(run, "cells")) {
    if (!agrees(cell)) {
      invalid += fmt::format("{}: INVALID, {}\n", printable(text(cell, "workload")),
                             printable(text(member(cell, "validity"), "reason")));
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

std::string markdown_counts(const nlohmann::json& run) {
  std::string out = fmt::format("| {} |\n|---|---|--:|--:|--:|--:|--:|--:|\n", fmt::join(header(), " | "));
  for (const Json& cell : list(run, "cells")) {
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
