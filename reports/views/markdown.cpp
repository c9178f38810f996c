#include "reports/views/markdown.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/analysis/evidence.h"
#include "reports/analysis/usage.h"
#include "reports/run/environment.h"
#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/views/counts.h"
#include "reports/views/ladder_table.h"
#include "reports/views/split_views.h"
#include "reports/views/summary.h"
#include "reports/views/usage_views.h"

namespace diptych::reports {
namespace {

std::string cell_name(const Cell& cell) { return escape_markdown(shorten(printable(cell.workload()), 200)); }

std::string overview(const Run& run) {
  std::string out = "| workload | arm | time | against eager | compile | break-even | verdict |\n";
  out += "|---|---|--:|--:|--:|--:|---|\n";
  for (const Cell cell : run.cells()) {
    for (const Arm arm : cell.arms()) {
      const std::string name = arm.name();
      Comparison comparison;
      for (const Comparison candidate : cell.comparisons()) {
        if (candidate.arm() == name) {
          comparison = candidate;
        }
      }
      const auto seconds = arm.seconds();
      const auto speedup = comparison.speedup();
      const auto compile = arm.compile_seconds();
      const std::string verdict = escape_markdown(verdict_text(comparison));
      out += fmt::format(
          "| {} | {} | {} | {} | {} | {} | {} |\n", cell_name(cell), escape_markdown(name),
          seconds ? format_seconds(*seconds, Glyphs::typographic) : "-",
          speedup ? format_ratio(*speedup, Glyphs::typographic) : "",
          format_seconds(compile && compile->value > 0 ? std::optional<double>(compile->value) : std::nullopt,
                         Glyphs::typographic),
          comparison ? escape_markdown(break_even_text(comparison.break_even())) : "",
          comparison ? fmt::format("**{}**", verdict) : "");
    }
  }
  return out;
}

std::string nothing_to_compare(const Cell& cell) {
  return cell.processes().empty() ? "counted, not timed" : "nothing to compare";
}

std::string reasons(const Run& run) {
  std::string out;
  for (const Cell cell : run.cells()) {
    const std::string reason = escape_markdown(why(cell, Glyphs::typographic));
    out += fmt::format("- {}: {}", cell_name(cell), reason.empty() ? nothing_to_compare(cell) : reason);
    for (const std::string& metric : metric_lines(cell, Glyphs::typographic)) {
      out += "; " + escape_markdown(metric);
    }
    for (const Comparison comparison : cell.comparisons()) {
      if (const std::string note = intervals_disagree(comparison, Glyphs::typographic); !note.empty()) {
        out += "; " + escape_markdown(note);
      }
    }
    out += "\n";
  }
  return out;
}

std::string failures(const Run& run) {
  std::string out;
  for (const std::string& line : failed_arms(run)) {
    out += fmt::format("- {}\n", escape_markdown(shorten(printable(line), 600)));
  }
  return out;
}

std::string ladders(const Run& run) {
  std::string out;
  for (const Cell cell : run.cells()) {
    if (!cell.ladder()) {
      continue;
    }
    out += fmt::format("\n### {}\n\n{}", cell_name(cell), markdown_ladder(cell.ladder()));
    const std::string sentence = split_sentence(cell.ladder().split(), Glyphs::typographic);
    out += sentence.empty() ? "" : "\n" + escape_markdown(sentence) + "\n";
  }
  return out.empty() ? "" : "\n## The ladder\n" + out;
}

std::string environment(const Run& run) {
  std::string out = "<details><summary>Environment</summary>\n\n| | |\n|---|---|\n";
  for (const EnvironmentEntry& entry : flatten_environment(run.environment())) {
    out += fmt::format("| {} | {} |\n", escape_markdown(entry.name),
                       escape_markdown(shorten(printable(entry.value), 400)));
  }
  return out + "\n</details>\n";
}

}  // namespace

std::string render_markdown(const Run& run) {
  const std::string command = fmt::format("{}", fmt::join(run.command(), " "));
  std::string out = fmt::format("# {}\n\n", escape_markdown(headline(run, Glyphs::typographic)));
  out += fmt::format(
      "{}.{}\n\n", escape_markdown(setup_line(run, Glyphs::typographic)),
      run.is_timed() ? " Times are per call; brackets are 95 % intervals over processes; above 1× the arm is faster."
                     : "");
  for (const std::string& warning : cautions(run)) {
    out += escape_markdown(warning) + "\n\n";
  }
  if (shows_counts(run)) {
    out += "## Counts of one call\n\n" + markdown_counts(run) + "\n";
  }
  if (run.is_timed()) {
    out += overview(run) + "\n## Why\n\n";
  }
  out += reasons(run) + failures(run) + ladders(run) + "\n## Again\n\n" + markdown_code_block(command) + "\n" +
         markdown_usage(run) + environment(run);
  return out;
}

}  // namespace diptych::reports
