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
#include "reports/views/fusion_views.h"
#include "reports/views/summary.h"
#include "reports/views/usage_views.h"

namespace diptych::reports {
namespace {

enum class Detail { intervals, spreads };

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

/// An external arm has no column for its speed-up and verdict: those columns are the compiled graph's.
std::vector<std::string> external_lines(const Cell& cell) {
  std::vector<std::string> lines;
  const std::string main_arm = cell.main_comparison().arm();
  for (const Comparison comparison : cell.comparisons()) {
    const std::string arm = comparison.arm();
    if (cell.arm(arm).is_external() && arm != main_arm) {
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
  if (const std::string losses = loss_sentence(cell); !losses.empty()) {
    out += wrapped("fusion: ", printable(losses), options.width, options.colour);
  }
  for (const std::vector<std::string>& lines : {external_lines(cell), metric_lines(cell)}) {
    for (const std::string& line : lines) {
      out += wrapped("", printable(line), options.width, options.colour);
    }
  }
  return out;
}

TextTable table_of(const Run& run, const std::vector<std::string>& arms, const TableOptions& options, Detail detail) {
  std::vector<std::string> header = {"workload"};
  for (const std::string& arm : arms) {
    header.push_back(shorten(printable(arm), 16));
  }
  header.insert(header.end(), {"speedup", "compile", "break-even", "verdict"});
  TextTable table(header, "head");
  for (const Cell cell : run.cells()) {
    const Comparison comparison = cell.main_comparison();
    std::vector<std::string> fields = {shorten(printable(cell.workload()), 32)};
    for (const std::string& arm : arms) {
      fields.push_back(time_text(cell.arm(arm), detail));
    }
    fields.push_back(speedup_text(comparison));
    fields.push_back(compile_text(cell, comparison));
    fields.push_back(break_even_text(comparison.break_even()));
    fields.push_back(verdict_text(comparison));
    const std::string tone = verdict_tone(comparison);
    table.add(std::move(fields), tone.empty() ? "bold" : tone, notes(cell, options));
  }
  return table;
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
  constexpr int narrowest = 2;  // a column of an arm, and what separates it from the next
  if (std::ssize(arms) * narrowest > options.width) {
    return out + render_blocks(run, options) + after_table(run, options);
  }
  for (const Detail detail : {Detail::intervals, Detail::spreads}) {
    const TextTable table = table_of(run, arms, options, detail);
    if (table.width() <= options.width) {
      return out + table.render(options.colour, options.width) + after_table(run, options);
    }
  }
  return out + render_blocks(run, options) + after_table(run, options);
}

}  // namespace diptych::reports
