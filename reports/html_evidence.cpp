// The evidence of a cell: what a reader needs to doubt a verdict.

#include <fmt/format.h>

#include "reports/evidence.h"
#include "reports/format.h"
#include "reports/html_cell.h"
#include "reports/html_table.h"
#include "reports/json_access.h"
#include "reports/text.h"

namespace diptych::reports {
namespace {

HtmlField p_field(const Json& evidence) {
  const auto p = number(evidence, "p");
  const auto adjusted = number(evidence, "p_holm");
  if (!p) {
    return {"-"};
  }
  return {fmt::format("{:.2g}", *p), adjusted ? fmt::format("run: {:.2g}", *adjusted) : "", p};
}

HtmlField share_field(const Json& evidence) {
  const auto between = number(member(evidence, "variance"), "between");
  const auto within = number(member(evidence, "variance"), "within");
  return between && within ? HtmlField{format_percent(*between), format_percent(*within) + " within", between}
                           : HtmlField{"-"};
}

std::string intervals(const Json& cell) {
  HtmlTable table({"against eager", "t interval", "sign interval", "bootstrap", "p", "variance between processes",
                   "autocorrelation of rounds"});
  for (const Json& comparison : list(cell, "comparisons")) {
    const Json& evidence = member(comparison, "evidence");
    if (!evidence.is_object()) {
      continue;
    }
    const auto correlation = number(evidence, "autocorrelation");
    table.row({{text(comparison, "arm")},
               {interval_text(member(comparison, "speedup"))},
               {interval_text(member(evidence, "sign_interval"))},
               {interval_text(member(evidence, "bootstrap_interval"))},
               p_field(evidence),
               share_field(evidence),
               {correlation ? fmt::format("{:+.2f}", *correlation) : "-", "", correlation}});
  }
  return table.empty() ? "" : table.finish();
}

std::string warmups(const Json& cell) {
  HtmlTable table({"arm", "warm-up", "first call", "worst call", "steady", "steady after"}, {1});
  for (const Json& arm : list(cell, "arms")) {
    const Json& warmup = member(arm, "warmup");
    if (!warmup.is_object()) {
      continue;
    }
    std::string shown;
    for (const auto& [name, count] : member(warmup, "processes").items()) {
      shown += fmt::format("{}{}: {}", shown.empty() ? "" : ", ", name, count.is_number() ? count.get<int>() : 0);
    }
    const auto time = [](std::optional<double> seconds) {
      return HtmlField{format_seconds(seconds, Glyphs::typographic), "", seconds};
    };
    const auto after = number(warmup, "steady_after_calls");
    table.row({{text(arm, "name")},
               {text(warmup, "class"), shown},
               time(number(arm, "first_call_seconds")),
               time(number(arm, "worst_call_seconds")),
               time(number(warmup, "steady_seconds")),
               {after ? format_count(*after) + " calls" : "-", "", after}});
  }
  return table.empty() ? "" : table.finish();
}

}  // namespace

std::string html_evidence(const Json& cell) {
  const std::string body = intervals(cell) + warmups(cell);
  if (body.empty()) {
    return "";
  }
  std::string notes;
  for (const Json& comparison : list(cell, "comparisons")) {
    if (const std::string note = intervals_disagree(comparison, Glyphs::typographic); !note.empty()) {
      notes += fmt::format(R"(<p class="sub">{}.</p>)", escape_xml(note));
    }
  }
  return fmt::format(
      "<details><summary>Evidence<span>three intervals, where the scatter comes from, warm-up</span></summary>"
      "{}{}</details>\n",
      notes, body);
}

}  // namespace diptych::reports
