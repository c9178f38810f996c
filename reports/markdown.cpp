#include "reports/markdown.h"

#include <algorithm>

#include <fmt/format.h>

#include "reports/counts.h"
#include "reports/environment.h"
#include "reports/evidence.h"
#include "reports/format.h"
#include "reports/json_access.h"
#include "reports/ladder_table.h"
#include "reports/split_views.h"
#include "reports/summary.h"
#include "reports/text.h"
#include "reports/usage.h"

namespace diptych::reports {
namespace {

std::string cell_name(const Json& cell) { return escape_markdown(shorten(printable(text(cell, "workload")), 200)); }

std::string overview(const Json& run) {
  std::string out = "| workload | arm | time | against eager | compile | break-even | verdict |\n";
  out += "|---|---|--:|--:|--:|--:|---|\n";
  for (const Json& cell : list(run, "cells")) {
    for (const Json& arm : list(cell, "arms")) {
      const std::string name = text(arm, "name");
      Json comparison;
      for (const Json& candidate : list(cell, "comparisons")) {
        if (text(candidate, "arm") == name) {
          comparison = candidate;
        }
      }
      const auto seconds = estimate(member(arm, "seconds"));
      const auto speedup = estimate(member(comparison, "speedup"));
      const auto compile = estimate(member(arm, "compile_seconds"));
      const std::string verdict = escape_markdown(verdict_text(comparison));
      out += fmt::format(
          "| {} | {} | {} | {} | {} | {} | {} |\n", cell_name(cell), escape_markdown(name),
          seconds ? format_seconds(*seconds, Glyphs::typographic) : "-",
          speedup ? format_ratio(*speedup, Glyphs::typographic) : "",
          format_seconds(compile && compile->value > 0 ? std::optional<double>(compile->value) : std::nullopt,
                         Glyphs::typographic),
          comparison.is_null() ? "" : escape_markdown(break_even_text(comparison)),
          comparison.is_null() ? "" : fmt::format("**{}**", verdict));
    }
  }
  return out;
}

std::string nothing_to_compare(const Json& cell) {
  return list(cell, "processes").empty() ? "counted, not timed" : "nothing to compare";
}

std::string reasons(const Json& run) {
  std::string out;
  for (const Json& cell : list(run, "cells")) {
    const std::string reason = escape_markdown(why(cell, Glyphs::typographic));
    out += fmt::format("- {}: {}", cell_name(cell), reason.empty() ? nothing_to_compare(cell) : reason);
    for (const std::string& metric : metric_lines(cell, Glyphs::typographic)) {
      out += "; " + escape_markdown(metric);
    }
    for (const Json& comparison : list(cell, "comparisons")) {
      if (const std::string note = intervals_disagree(comparison, Glyphs::typographic); !note.empty()) {
        out += "; " + escape_markdown(note);
      }
    }
    out += "\n";
  }
  return out;
}

std::string failures(const Json& run) {
  std::string out;
  for (const std::string& line : failed_arms(run)) {
    out += fmt::format("- {}\n", escape_markdown(shorten(printable(line), 600)));
  }
  return out;
}

std::string ladders(const Json& run) {
  std::string out;
  for (const Json& cell : list(run, "cells")) {
    if (!member(cell, "ladder").is_object()) {
      continue;
    }
    out += fmt::format("\n### {}\n\n{}", cell_name(cell), markdown_ladder(member(cell, "ladder")));
    const std::string sentence = split_sentence(member(member(cell, "ladder"), "split"), Glyphs::typographic);
    out += sentence.empty() ? "" : "\n" + escape_markdown(sentence) + "\n";
  }
  return out.empty() ? "" : "\n## The ladder\n" + out;
}

std::string environment(const Json& run) {
  std::string out = "<details><summary>Environment</summary>\n\n| | |\n|---|---|\n";
  for (const EnvironmentEntry& entry : flatten_environment(member(run, "environment"))) {
    out += fmt::format("| {} | {} |\n", escape_markdown(entry.name),
                       escape_markdown(shorten(printable(entry.value), 400)));
  }
  return out + "\n</details>\n";
}

}  // namespace

std::string render_markdown(const nlohmann::json& run) {
  const std::string command = joined(list(run, "command"), " ");
  std::string out = fmt::format("# {}\n\n", escape_markdown(headline(run, Glyphs::typographic)));
  out += fmt::format(
      "{}.{}\n\n", escape_markdown(setup_line(run, Glyphs::typographic)),
      is_timed(run) ? " Times are per call; brackets are 95 % intervals over processes; above 1× the arm is faster."
                    : "");
  for (const std::string& warning : cautions(run)) {
    out += escape_markdown(warning) + "\n\n";
  }
  if (shows_counts(run)) {
    out += "## Counts of one call\n\n" + markdown_counts(run) + "\n";
  }
  if (is_timed(run)) {
    out += overview(run) + "\n## Why\n\n";
  }
  out += reasons(run) + failures(run) + ladders(run) + "\n## Again\n\n" + markdown_code_block(command) + "\n" +
         markdown_usage(run) + environment(run);
  return out;
}

}  // namespace diptych::reports
