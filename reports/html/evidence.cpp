// The evidence of a cell: what a reader needs in order to doubt a verdict.

#include "reports/analysis/evidence.h"

#include <fmt/format.h>

#include "reports/html/cell.h"
#include "reports/html/table.h"
#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

HtmlField p_field(const Evidence& evidence) {
  const auto p = evidence.p();
  const auto adjusted = evidence.p_holm();
  if (!p) {
    return {"-"};
  }
  return {fmt::format("{:.2g}", *p), adjusted ? fmt::format("run: {:.2g}", *adjusted) : "", p};
}

HtmlField share_field(const Evidence& evidence) {
  const auto between = evidence.variance_between();
  const auto within = evidence.variance_within();
  return between && within ? HtmlField{format_percent(*between), format_percent(*within) + " within", between}
                           : HtmlField{"-"};
}

std::string intervals(const Cell& cell) {
  HtmlTable table({"against eager", "t interval", "sign interval", "bootstrap", "p", "variance between processes",
                   "autocorrelation of rounds"});
  for (const Comparison comparison : cell.comparisons()) {
    const Evidence evidence = comparison.evidence();
    if (!evidence) {
      continue;
    }
    const auto correlation = evidence.autocorrelation();
    table.row({{comparison.arm()},
               {interval_text(t_interval(comparison))},
               {interval_text(evidence.sign_interval())},
               {interval_text(evidence.bootstrap_interval())},
               p_field(evidence),
               share_field(evidence),
               {correlation ? fmt::format("{:+.2f}", *correlation) : "-", "", correlation}});
  }
  return table.empty() ? "" : table.finish();
}

std::string warmups(const Cell& cell) {
  HtmlTable table({"arm", "warm-up", "first call", "worst call", "steady", "steady after"}, {1});
  for (const Arm arm : cell.arms()) {
    const WarmupEntry warmup = arm.warmup();
    if (!warmup) {
      continue;
    }
    std::string shown;
    for (const auto& [name, count] : warmup.processes().items()) {
      shown += fmt::format("{}{}: {}", shown.empty() ? "" : ", ", name, count.is_number() ? count.get<int>() : 0);
    }
    const auto time = [](std::optional<double> seconds) {
      return HtmlField{format_seconds(seconds, Glyphs::typographic), "", seconds};
    };
    const auto after = warmup.steady_after_calls();
    table.row({{arm.name()},
               {warmup.kind(), shown},
               time(arm.first_call_seconds()),
               time(arm.worst_call_seconds()),
               time(warmup.steady_seconds()),
               {after ? format_count(*after) + " calls" : "-", "", after}});
  }
  return table.empty() ? "" : table.finish();
}

}  // namespace

std::string html_evidence(const Cell& cell) {
  const std::string body = intervals(cell) + warmups(cell);
  if (body.empty()) {
    return "";
  }
  std::string notes;
  for (const Comparison comparison : cell.comparisons()) {
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
