#include "reports/views/table.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "reports/analysis/usage.h"
#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"
#include "reports/views/counts.h"
#include "reports/views/summary.h"
#include "reports/views/usage_views.h"

namespace diptych::reports {
namespace {

enum class Detail { intervals, spreads };

struct Row {
  std::vector<std::string> fields;
  std::string tone;
};

std::string time_text(const Arm& arm, Detail detail) {
  const auto seconds = arm.seconds();
  if (!seconds) {
    return "-";
  }
  if (detail == Detail::intervals) {
    return format_seconds(*seconds);
  }
  const std::string spread = format_spread(*seconds);
  return format_seconds(std::optional<double>(seconds->value)) + (spread.empty() ? "" : " +-" + spread);
}

std::string speedup_text(const Comparison& comparison) {
  const auto speedup = comparison.speedup();
  return speedup ? format_ratio(*speedup) : "-";
}

std::string compile_text(const Cell& cell, const Comparison& comparison) {
  const auto compile = cell.arm(comparison.arm()).compile_seconds();
  return format_seconds(value_of(compile));
}

std::vector<Row> build_rows(const Run& run, const std::vector<std::string>& arms, Detail detail) {
  Row header;
  header.fields = {"workload"};
  for (const std::string& arm : arms) {
    header.fields.push_back(shorten(printable(arm), 16));
  }
  for (const char* name : {"speedup", "compile", "break-even", "verdict"}) {
    header.fields.emplace_back(name);
  }
  std::vector<Row> rows = {header};
  for (const Cell cell : run.cells()) {
    const Comparison comparison = cell.main_comparison();
    Row row;
    row.tone = verdict_tone(comparison);
    row.fields = {shorten(printable(cell.workload()), 32)};
    for (const std::string& arm : arms) {
      row.fields.push_back(time_text(cell.arm(arm), detail));
    }
    row.fields.push_back(speedup_text(comparison));
    row.fields.push_back(compile_text(cell, comparison));
    row.fields.push_back(break_even_text(comparison.break_even()));
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

/// An external arm has no column for its speed-up and verdict: those columns are the compiled graph's.
std::vector<std::string> external_lines(const Cell& cell) {
  std::vector<std::string> lines;
  for (const Comparison comparison : cell.comparisons()) {
    const std::string arm = comparison.arm();
    if (cell.arm(arm).is_external() && arm != cell.main_comparison().arm()) {
      lines.push_back(fmt::format("{} against {}: {}, {}", arm, comparison.base(), speedup_text(comparison),
                                  verdict_text(comparison)));
    }
  }
  return lines;
}

std::string notes(const Cell& cell, const TableOptions& options) {
  std::string out;
  const std::string reason = printable(why(cell));
  if (!reason.empty()) {
    out += wrapped("why: ", reason, options.width, options.colour);
  }
  for (const std::vector<std::string>& lines : {external_lines(cell), metric_lines(cell)}) {
    for (const std::string& line : lines) {
      out += wrapped("", printable(line), options.width, options.colour);
    }
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

std::string render_wide(const Run& run, const std::vector<Row>& rows, const TableOptions& options) {
  const std::vector<int> widths = column_widths(rows);
  Row header = rows.front();
  header.tone = "head";
  std::string out = render_row(header, widths, options.colour);
  out += std::string(static_cast<std::size_t>(total_width(widths)), '-') + "\n";
  std::size_t index = 1;
  for (const Cell cell : run.cells()) {
    out += render_row(rows[index++], widths, options.colour) + notes(cell, options);
  }
  return out;
}

// One block per cell, one line per arm: for narrow terminals and for many arms.
std::string render_blocks(const Run& run, const TableOptions& options) {
  std::string out;
  for (const Cell cell : run.cells()) {
    const Comparison comparison = cell.main_comparison();
    out += shorten(printable(cell.workload()), options.width) + "\n";
    int name_width = 10;
    for (const Arm arm : cell.arms()) {
      name_width = std::max(name_width, display_width(shorten(printable(arm.name()), 20)));
    }
    const auto line = [&](const std::string& name, const std::string& value) {
      out += "  " + padded(shorten(name, 20), name_width) + "  " + value + "\n";
    };
    for (const Arm arm : cell.arms()) {
      line(printable(arm.name()), time_text(arm, Detail::intervals));
    }
    line("speedup", speedup_text(comparison));
    line("compile", compile_text(cell, comparison));
    line("break-even", break_even_text(comparison.break_even()));
    line("verdict", coloured(verdict_text(comparison), verdict_tone(comparison), options.colour));
    out += notes(cell, options);
  }
  return out;
}

std::string after_table(const Run& run, const TableOptions& options) {
  const std::string usage = render_usage(run, options);
  return usage.empty() ? "" : "\n" + usage;
}

}  // namespace

std::string render_table(const Run& run, const TableOptions& options) {
  std::string out = wrapped("", printable(headline(run)), options.width, options.colour);
  out.erase(0, 2);
  out += shorten(printable(setup_line(run)), options.width) + "\n";
  for (const std::string& warning : cautions(run)) {
    out += wrapped("", warning, options.width, options.colour).substr(2);
  }
  out += "\n";
  if (shows_counts(run)) {
    out += render_counts(run, options) + (run.is_timed() ? "\n" : "");
  }
  if (!run.is_timed()) {
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
