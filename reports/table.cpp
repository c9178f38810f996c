#include "reports/table.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "reports/counts.h"
#include "reports/format.h"
#include "reports/json_access.h"
#include "reports/summary.h"
#include "reports/text.h"
#include "reports/text_table.h"
#include "reports/usage.h"

namespace diptych::reports {
namespace {

enum class Detail { intervals, spreads };

struct Row {
  std::vector<std::string> fields;
  std::string tone;
};

std::string time_text(const Json& arm, Detail detail) {
  const auto seconds = estimate(member(arm, "seconds"));
  if (!seconds) {
    return "-";
  }
  if (detail == Detail::intervals) {
    return format_seconds(*seconds);
  }
  const std::string spread = format_spread(*seconds);
  return format_seconds(std::optional<double>(seconds->value)) + (spread.empty() ? "" : " +-" + spread);
}

std::string speedup_text(const Json& comparison) {
  const auto speedup = estimate(member(comparison, "speedup"));
  return speedup ? format_ratio(*speedup) : "-";
}

std::string compile_text(const Json& cell, const Json& comparison) {
  const auto compile = estimate(member(find_arm(cell, text(comparison, "arm")), "compile_seconds"));
  return format_seconds(compile ? std::optional<double>(compile->value) : std::nullopt);
}

std::vector<Row> build_rows(const Json& run, const std::vector<std::string>& arms, Detail detail) {
  Row header;
  header.fields = {"workload"};
  for (const std::string& arm : arms) {
    header.fields.push_back(shorten(printable(arm), 16));
  }
  for (const char* name : {"speedup", "compile", "break-even", "verdict"}) {
    header.fields.emplace_back(name);
  }
  std::vector<Row> rows = {header};
  for (const Json& cell : list(run, "cells")) {
    const Json& comparison = main_comparison(cell);
    Row row;
    row.tone = verdict_tone(comparison);
    row.fields = {shorten(printable(text(cell, "workload")), 32)};
    for (const std::string& arm : arms) {
      row.fields.push_back(time_text(find_arm(cell, arm), detail));
    }
    row.fields.push_back(speedup_text(comparison));
    row.fields.push_back(compile_text(cell, comparison));
    row.fields.push_back(break_even_text(comparison));
    row.fields.push_back(verdict_text(comparison));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<int> column_widths(const std::vector<Row>& rows) {
  std::vector<int> widths(rows.front().fields.size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row.fields[i]));
    }
  }
  return widths;
}

int total_width(const std::vector<int>& widths) {
  int total = 2 * (static_cast<int>(widths.size()) - 1);
  for (const int width : widths) {
    total += width;
  }
  return total;
}

// Wraps at spaces; a word longer than the line is cut, because a name may be as long as its author liked.
std::string wrapped(const std::string& label, const std::string& body, int width, bool colour) {
  const std::string indent(static_cast<std::size_t>(display_width(label)) + 2, ' ');
  const int room = std::max(20, width - static_cast<int>(indent.size()));
  std::string out;
  std::string line;
  const auto flush = [&] {
    out += (out.empty() ? fmt::format("  {}", coloured(label, "dim", colour)) : indent) + line + "\n";
    line.clear();
  };
  for (std::size_t start = 0; start < body.size();) {
    const std::size_t end = std::min(body.find(' ', start), body.size());
    const std::string word = shorten(body.substr(start, end - start), room);
    if (!line.empty() && display_width(line) + 1 + display_width(word) > room) {
      flush();
    }
    line += (line.empty() ? "" : " ") + word;
    start = end + 1;
  }
  flush();
  return out;
}

std::string notes(const Json& cell, const TableOptions& options) {
  std::string out;
  const std::string reason = printable(why(cell));
  if (!reason.empty()) {
    out += wrapped("why: ", reason, options.width, options.colour);
  }
  for (const std::string& metric : metric_lines(cell)) {
    out += wrapped("", printable(metric), options.width, options.colour);
  }
  return out;
}

std::string render_row(const Row& row, const std::vector<int>& widths, bool colour) {
  std::string line;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    line += padded(row.fields[i], widths[i]) + "  ";
  }
  return line + coloured(row.fields.back(), row.tone, colour) + "\n";
}

std::string render_wide(const Json& run, const std::vector<Row>& rows, const TableOptions& options) {
  const std::vector<int> widths = column_widths(rows);
  Row header = rows.front();
  header.tone = "head";
  std::string out = render_row(header, widths, options.colour);
  out += std::string(static_cast<std::size_t>(total_width(widths)), '-') + "\n";
  std::size_t index = 1;
  for (const Json& cell : list(run, "cells")) {
    out += render_row(rows[index++], widths, options.colour) + notes(cell, options);
  }
  return out;
}

// One block per cell, one line per arm: for narrow terminals and for many arms.
std::string render_blocks(const Json& run, const TableOptions& options) {
  std::string out;
  for (const Json& cell : list(run, "cells")) {
    const Json& comparison = main_comparison(cell);
    out += shorten(printable(text(cell, "workload")), options.width) + "\n";
    int name_width = 10;
    for (const Json& arm : list(cell, "arms")) {
      name_width = std::max(name_width, display_width(shorten(printable(text(arm, "name")), 20)));
    }
    const auto line = [&](const std::string& name, const std::string& value) {
      out += "  " + padded(shorten(name, 20), name_width) + "  " + value + "\n";
    };
    for (const Json& arm : list(cell, "arms")) {
      line(printable(text(arm, "name")), time_text(arm, Detail::intervals));
    }
    line("speedup", speedup_text(comparison));
    line("compile", compile_text(cell, comparison));
    line("break-even", break_even_text(comparison));
    line("verdict", coloured(verdict_text(comparison), verdict_tone(comparison), options.colour));
    out += notes(cell, options);
  }
  return out;
}

std::string after_table(const Json& run, const TableOptions& options) {
  const std::string usage = render_usage(run, options);
  return usage.empty() ? "" : "\n" + usage;
}

}  // namespace

std::string render_table(const nlohmann::json& run, const TableOptions& options) {
  std::string out = wrapped("", printable(headline(run)), options.width, options.colour);
  out.erase(0, 2);
  out += shorten(printable(setup_line(run)), options.width) + "\n";
  for (const std::string& warning : cautions(run)) {
    out += wrapped("", warning, options.width, options.colour).substr(2);
  }
  out += "\n";
  if (shows_counts(run)) {
    out += render_counts(run, options) + (is_timed(run) ? "\n" : "");
  }
  if (!is_timed(run)) {
    return out;
  }
  const std::vector<std::string> arms = arm_names(run);
  for (const Detail detail : {Detail::intervals, Detail::spreads}) {
    const std::vector<Row> rows = build_rows(run, arms, detail);
    if (total_width(column_widths(rows)) <= options.width) {
      out += render_wide(run, rows, options);
      return out + after_table(run, options);
    }
  }
  return out + render_blocks(run, options) + after_table(run, options);
}

}  // namespace diptych::reports
