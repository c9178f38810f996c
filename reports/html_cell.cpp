#include "reports/html_cell.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "reports/charts.h"
#include "reports/format.h"
#include "reports/html_fields.h"
#include "reports/html_ladder.h"
#include "reports/json_access.h"
#include "reports/summary.h"
#include "reports/text.h"
#include "reports/usage.h"

namespace diptych::reports {
namespace {

constexpr Glyphs rich = Glyphs::typographic;

std::string mark_of(const Json& comparison) {
  const std::string tone = verdict_tone(comparison);
  return tone == "faster" || tone == "slower" || tone == "unclear" ? tone : "none";
}

std::string verdict_mark(const Json& comparison) {
  return fmt::format(R"(<span class="verdict {}">{}</span>)", mark_of(comparison),
                     escape_xml(verdict_text(comparison)));
}

std::string fact(const char* name, const HtmlField& field) {
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>", name, escape_xml(field.text),
                     field.note.empty() ? "" : fmt::format("<small>{}</small>", escape_xml(field.note)));
}

std::string facts(const Json& cell, const Json& comparison) {
  const Json& base = find_arm(cell, text(comparison, "base"));
  const Json& arm = find_arm(cell, text(comparison, "arm"));
  const auto mde = number(comparison, "mde");
  std::string out = R"(<dl class="facts">)";
  if (!comparison.is_null()) {
    out += fact("speedup", ratio_field(member(comparison, "speedup")));
    out += fact("eager", time_field(member(base, "seconds")));
    out += fmt::format("<div><dt>{}</dt>", escape_xml(text(comparison, "arm")));
    const HtmlField time = time_field(member(arm, "seconds"));
    out += fmt::format("<dd>{}<small>{}</small></dd></div>", escape_xml(time.text), escape_xml(time.note));
    out += fact("compile", time_field(member(arm, "compile_seconds")));
    out += fact("break-even", split_interval(break_even_text(comparison), std::nullopt));
    out += fact("detectable effect", {mde ? format_percent(*mde) : "-", "power 90 %"});
  }
  return out + "</dl>";
}

std::string legend(const Json& cell) {
  std::string out = R"(<ul class="legend">)";
  const Json& arms = list(cell, "arms");
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const std::string name = text(arms[i], "name");
    out += fmt::format(
        R"(<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect width="10" height="10" rx="2" class="{}"/></svg>{}</li>)",
        arm_colour(name, i), escape_xml(shorten(printable(name), 40)));
  }
  return out + "</ul>";
}

std::string figures(const Json& cell) {
  const std::string rounds = rounds_chart(cell);
  return R"(<div class="figures">)" +
         figure("Time per call", "whiskers: 95 % interval over processes", bars_chart(cell)) +
         figure("The ladder", "what each cause saves; dashed: not distinguishable from zero", ladder_chart(cell)) +
         figure("Every round", "in the order measured; the bar is the process's median",
                rounds.empty() ? "" : legend(cell) + rounds) +
         figure("Break-even", "total time, compile included; the band is the interval", break_even_chart(cell)) +
         "</div>\n";
}

std::string arms_table(const Json& cell) {
  HtmlTable table({"arm", "per call", "first call", "worst call", "compile", "what it is"}, {5});
  for (const Json& arm : list(cell, "arms")) {
    const std::string failure = text(arm, "failed");
    table.row({{text(arm, "name")},
               time_field(member(arm, "seconds")),
               plain_time_field(arm, "first_call_seconds"),
               plain_time_field(arm, "worst_call_seconds"),
               time_field(member(arm, "compile_seconds")),
               {failure.empty() ? text(arm, "description") : "INVALID: " + failure, "", {}, "wrap"}});
  }
  return table.finish();
}

std::string comparisons_table(const Json& cell) {
  HtmlTable table({"against eager", "speedup", "detectable", "break-even", "verdict", "because"}, {4, 5});
  for (const Json& comparison : list(cell, "comparisons")) {
    const auto mde = number(comparison, "mde");
    const Json& verdict = member(comparison, "verdict");
    const std::string detail = text(verdict, "detail");
    table.row({{text(comparison, "arm")},
               ratio_field(member(comparison, "speedup")),
               {mde ? format_percent(*mde) : "-", "", mde},
               split_interval(break_even_text(comparison), number(member(comparison, "break_even"), "calls")),
               {verdict_text(comparison), "", {}, "", mark_of(comparison)},
               {detail.empty() ? text(verdict, "reason") : detail, "", {}, "wrap"}});
  }
  return table.empty() ? "" : folded("Comparisons", "", table.finish(), true);
}

std::string metrics_table(const Json& cell) {
  std::vector<std::string> header = {"metric"};
  const Json& metrics = list(cell, "metrics");
  for (const Json& metric : metrics) {
    const std::string arm = text(metric, "arm");
    if (std::find(header.begin() + 1, header.end(), arm) == header.end()) {
      header.push_back(arm);
    }
  }
  std::map<std::string, std::vector<HtmlField>> rows;
  for (const Json& metric : metrics) {
    auto& row = rows.try_emplace(text(metric, "name"), header.size(), HtmlField{"-"}).first->second;
    const auto column = std::find(header.begin() + 1, header.end(), text(metric, "arm")) - header.begin();
    const auto value = number(metric, "value");
    row[0] = {text(metric, "name")};
    row[static_cast<std::size_t>(column)] = {value ? format_metric(*value, text(metric, "unit"), rich) : "not measured",
                                             "", value};
  }
  HtmlTable table(header);
  for (auto& [name, row] : rows) {
    table.row(std::move(row));
  }
  return table.empty() ? "" : folded("Metrics", "what the program computed", table.finish(), true);
}

std::string exact_table(const Json& cell) {
  struct Column {
    const char* key;
    bool bytes;
  };
  constexpr Column columns[] = {{"nodes", false},     {"dispatches", false},        {"allocations", false},
                                {"peak_bytes", true}, {"planned_peak_bytes", true}, {"lower_bound_bytes", true}};
  HtmlTable table(
      {"arm", "nodes", "dispatches", "allocations", "peak memory", "planned peak", "lower bound", "instructions"});
  for (const Json& arm : list(cell, "arms")) {
    std::vector<HtmlField> row = {{text(arm, "name")}};
    for (const Column& column : columns) {
      const auto value = number(member(arm, "exact"), column.key);
      row.push_back({!value ? "-" : column.bytes ? format_bytes(*value) : format_count(*value), "", value});
    }
    const auto instructions = number(member(arm, "instructions"), "value");
    row.push_back({instructions ? format_count(std::round(*instructions)) : "-", "", instructions});
    table.row(std::move(row));
  }
  return folded("Exact counters", "repeat exactly (instructions within 0.1 %); no interval needed", table.finish(),
                true);
}

std::string passes_tables(const Json& cell) {
  std::string out;
  for (const Json& arm : list(cell, "arms")) {
    HtmlTable table({"pass", "nodes before", "nodes after", "time", "changed"});
    for (const Json& pass : list(arm, "passes")) {
      const auto before = number(pass, "nodes_before");
      const auto after = number(pass, "nodes_after");
      table.row({{text(pass, "name")},
                 {before ? format_count(*before) : "-", "", before},
                 {after ? format_count(*after) : "-", "", after},
                 plain_time_field(pass, "seconds"),
                 {member(pass, "changed") == true ? "yes" : "(unchanged)"}});
    }
    if (!table.empty()) {
      out += folded("Passes of " + text(arm, "name"), fmt::format("{} in order", list(arm, "passes").size()),
                    table.finish());
    }
  }
  return out;
}

}  // namespace

std::string html_overview(const Json& run) {
  HtmlTable table({"workload", "eager", "graph", "speedup", "compile", "break-even", "verdict"}, {6});
  table.sortable();
  std::size_t index = 0;
  for (const Json& cell : list(run, "cells")) {
    const Json& comparison = main_comparison(cell);
    const Json& arm = find_arm(cell, text(comparison, "arm"));
    HtmlField time = time_field(member(arm, "seconds"));
    if (text(comparison, "arm") != "graph") {
      time.text += fmt::format(" ({})", text(comparison, "arm"));
    }
    table.row({{text(cell, "workload"), "", {}, "", "", fmt::format("#cell-{}", index++)},
               time_field(member(find_arm(cell, "eager"), "seconds")),
               time,
               ratio_field(member(comparison, "speedup")),
               time_field(member(arm, "compile_seconds")),
               split_interval(break_even_text(comparison), number(member(comparison, "break_even"), "calls")),
               {verdict_text(comparison), "", {}, "", mark_of(comparison)}});
  }
  return table.finish();
}

std::string html_cell(const Json& cell, std::size_t index) {
  const Json& comparison = main_comparison(cell);
  const std::string workload = text(cell, "workload");
  const std::string title = text(cell, "title");
  std::string out = fmt::format(R"(<section class="cell" id="cell-{}">)", index);
  out += fmt::format("<h2>{}</h2>\n", escape_xml(title.empty() ? workload : title));
  out += fmt::format(R"(<p class="sub"><code>{}</code>, one call is one {}</p>)", escape_xml(workload),
                     escape_xml(text(cell, "unit").empty() ? "call" : text(cell, "unit")));
  out += facts(cell, comparison);
  out += fmt::format(R"(<p class="why">{} &nbsp;{}</p>)", verdict_mark(comparison), escape_xml(why(cell, rich)));
  const std::string agreed = joined(list(member(cell, "validity"), "checks"), ", ");
  if (!agreed.empty()) {
    out += fmt::format(R"(<p class="sub">Checked before timing: {}.</p>)", escape_xml(agreed));
  }
  out += figures(cell) + html_ladder(cell);
  out += "<h3>Numbers</h3>\n" + folded("Arms", "", arms_table(cell), true) + comparisons_table(cell) +
         html_evidence(cell) + metrics_table(cell) + exact_table(cell) + html_usage(cell) + passes_tables(cell);
  if (const std::string reproduce = text(cell, "reproduce"); !reproduce.empty()) {
    out += fmt::format(R"(<pre class="command"><code>{}</code></pre>)", escape_xml(reproduce));
  }
  return out + "</section>\n";
}

}  // namespace diptych::reports
