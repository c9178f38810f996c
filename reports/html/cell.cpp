#include "reports/html/cell.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/runtime/exact_metrics.h"
#include "reports/analysis/usage.h"
#include "reports/html/charts.h"
#include "reports/html/fields.h"
#include "reports/html/ladder.h"
#include "reports/html/profile_pictures.h"
#include "reports/html/usage.h"
#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/views/fusion_views.h"
#include "reports/views/summary.h"

namespace diptych::reports {
namespace {

constexpr Glyphs rich = Glyphs::typographic;

std::string mark_of(const Comparison& comparison) {
  const std::string tone = verdict_tone(comparison);
  return tone == "faster" || tone == "slower" || tone == "unclear" ? tone : "none";
}

std::string verdict_mark(const Comparison& comparison) {
  return fmt::format(R"(<span class="verdict {}">{}</span>)", mark_of(comparison),
                     escape_xml(verdict_text(comparison)));
}

std::string fact(const char* name, const HtmlField& field) {
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>", name, escape_xml(field.text),
                     field.note.empty() ? "" : fmt::format("<small>{}</small>", escape_xml(field.note)));
}

std::string facts(const Cell& cell, const Comparison& comparison) {
  const Arm base = cell.arm(comparison.base());
  const Arm arm = cell.arm(comparison.arm());
  const auto mde = comparison.mde();
  std::string out = R"(<dl class="facts">)";
  if (comparison) {
    out += fact("speedup", ratio_field(comparison.speedup()));
    out += fact("eager", time_field(base.seconds()));
    out += fmt::format("<div><dt>{}</dt>", escape_xml(comparison.arm()));
    const HtmlField time = time_field(arm.seconds());
    out += fmt::format("<dd>{}<small>{}</small></dd></div>", escape_xml(time.text), escape_xml(time.note));
    out += fact("compile", time_field(arm.compile_seconds()));
    out += fact("break-even", split_interval(break_even_text(comparison.break_even()), std::nullopt));
    out += fact("detectable effect", {mde ? format_percent(*mde) : "-", "power 90 %"});
  }
  return out + "</dl>";
}

std::string legend(const Cell& cell) {
  std::string out = R"(<ul class="legend">)";
  const Parts<Arm> arms = cell.arms();
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const std::string name = arms[i].name();
    out += legend_entry(arm_colour(name, i), shorten(printable(name), 40));
  }
  return out + "</ul>";
}

std::string figures(const Cell& cell) {
  const std::string rounds = rounds_chart(cell);
  return R"(<div class="figures">)" +
         figure("Time per call", "whiskers: 95 % interval over processes", bars_chart(cell)) +
         figure("The ladder", "what each cause saves; dashed: not distinguishable from zero", ladder_chart(cell)) +
         figure("Every round", "in the order measured; the bar is the process's median",
                rounds.empty() ? "" : legend(cell) + rounds) +
         figure("Break-even", "total time, compile included; the band is the interval", break_even_chart(cell)) +
         "</div>\n";
}

std::string arms_table(const Cell& cell) {
  HtmlTable table({"arm", "per call", "first call", "worst call", "compile", "what it is"}, {5});
  for (const Arm arm : cell.arms()) {
    const std::string failure = arm.failure();
    table.row({{arm.name()},
               time_field(arm.seconds()),
               plain_time_field(arm.first_call_seconds()),
               plain_time_field(arm.worst_call_seconds()),
               time_field(arm.compile_seconds()),
               {failure.empty() ? arm.description() : "INVALID: " + failure, "", {}, "wrap"}});
  }
  return table.finish();
}

std::string comparisons_table(const Cell& cell) {
  HtmlTable table({"against eager", "speedup", "detectable", "break-even", "verdict", "because"}, {4, 5});
  for (const Comparison comparison : cell.comparisons()) {
    const auto mde = comparison.mde();
    const Judgement verdict = comparison.verdict();
    const std::string detail = verdict.detail();
    table.row({{comparison.arm()},
               ratio_field(comparison.speedup()),
               {mde ? format_percent(*mde) : "-", "", mde},
               split_interval(break_even_text(comparison.break_even()), comparison.break_even().calls()),
               {verdict_text(comparison), "", {}, "", mark_of(comparison)},
               {detail.empty() ? verdict.reason() : detail, "", {}, "wrap"}});
  }
  return table.empty() ? "" : folded("Comparisons", "", table.finish(), true);
}

std::string metrics_table(const Cell& cell) {
  std::vector<std::string> header = {"metric"};
  std::map<std::string, std::size_t> columns;  // by arm
  const Parts<MetricEntry> metrics = cell.metrics();
  for (const MetricEntry metric : metrics) {
    const std::string arm = metric.arm();
    if (columns.try_emplace(arm, header.size()).second) {
      header.push_back(arm);
    }
  }
  std::map<std::string, std::vector<HtmlField>> rows;
  for (const MetricEntry metric : metrics) {
    auto& row = rows.try_emplace(metric.name(), header.size(), HtmlField{"-"}).first->second;
    const auto value = metric.value();
    row[0] = {metric.name()};
    row[columns.at(metric.arm())] = {value ? format_metric(*value, metric.unit(), rich) : "not measured", "", value};
  }
  HtmlTable table(header);
  for (auto& [name, row] : rows) {
    table.row(std::move(row));
  }
  return table.empty() ? "" : folded("Metrics", "what the program computed", table.finish(), true);
}

std::string exact_table(const Cell& cell) {
  std::vector<std::string> header = {"arm"};
  for (const runtime::ExactMetric& metric : runtime::exact_metrics()) {
    header.emplace_back(metric.title);
  }
  header.emplace_back("instructions");
  HtmlTable table(header);
  for (const Arm arm : cell.arms()) {
    std::vector<HtmlField> row = {{arm.name()}};
    for (const runtime::ExactMetric& metric : runtime::exact_metrics()) {
      const auto value = arm.exact(metric.name);
      row.push_back({!value ? "-" : metric.is_bytes ? format_bytes(*value) : format_count(*value), "", value});
    }
    const auto instructions = arm.instructions().value();
    row.push_back({instructions ? format_count(std::round(*instructions)) : "-", "", instructions});
    table.row(std::move(row));
  }
  return folded("Exact counters", "repeat exactly (instructions within 0.1 %); no interval needed", table.finish(),
                true);
}

std::string passes_tables(const Cell& cell) {
  std::string out;
  for (const Arm arm : cell.arms()) {
    HtmlTable table({"pass", "nodes before", "nodes after", "time", "changed"});
    for (const PassEntry pass : arm.passes()) {
      const auto before = pass.nodes_before();
      const auto after = pass.nodes_after();
      table.row({{pass.name()},
                 {before ? format_count(*before) : "-", "", before},
                 {after ? format_count(*after) : "-", "", after},
                 plain_time_field(pass.seconds()),
                 {pass.changed() ? "yes" : "(unchanged)"}});
    }
    if (!table.empty()) {
      out += folded("Passes of " + arm.name(), fmt::format("{} in order", arm.passes().size()), table.finish());
    }
  }
  return out;
}

/// Each kernel beside what it replaces.
std::string fused_table(const Cell& cell) {
  HtmlTable table({"ops", "pass", "fused", "apart", "fused / apart", "verdict"}, {1, 5});
  for (const FusedEntry kernel : fused_arm(cell).fused()) {
    const std::vector<double> ratio = kernel.ratio();
    const bool is_known = ratio.size() == 3;
    table.row({{kernel.ops()},
               {kernel.pass()},
               plain_time_field(kernel.seconds()),
               plain_time_field(kernel.apart_seconds()),
               {is_known ? fmt::format("{:.2f}", ratio[1]) : "-",
                is_known ? fmt::format("[{:.2f}, {:.2f}]", ratio[0], ratio[2]) : "", kernel.seconds()},
               {fused_verdict(kernel)}});
  }
  return table.empty() ? ""
                       : folded("Fused kernels, timed in the program", fusion_sentence(cell, rich), table.finish());
}

}  // namespace

std::string html_overview(const Run& run) {
  HtmlTable table({"workload", "eager", "graph", "speedup", "compile", "break-even", "verdict"}, {6});
  table.sortable();
  std::size_t index = 0;
  for (const Cell cell : run.cells()) {
    const Comparison comparison = cell.main_comparison();
    const Arm arm = cell.arm(comparison.arm());
    HtmlField time = time_field(arm.seconds());
    if (comparison.arm() != "graph") {
      time.text += fmt::format(" ({})", comparison.arm());
    }
    table.row({{cell.workload(), "", {}, "", "", fmt::format("#cell-{}", index++)},
               time_field(cell.arm("eager").seconds()),
               time,
               ratio_field(comparison.speedup()),
               time_field(arm.compile_seconds()),
               split_interval(break_even_text(comparison.break_even()), comparison.break_even().calls()),
               {verdict_text(comparison), "", {}, "", mark_of(comparison)}});
  }
  return table.finish();
}

std::string html_cell(const Cell& cell, std::size_t index) {
  const Comparison comparison = cell.main_comparison();
  const std::string workload = cell.workload();
  const std::string title = cell.title();
  std::string out = fmt::format(R"(<section class="cell" id="cell-{}">)", index);
  out += fmt::format("<h2>{}</h2>\n", escape_xml(title.empty() ? workload : title));
  const std::string unit = cell.unit();
  out += fmt::format(R"(<p class="sub"><code>{}</code>{}</p>)", escape_xml(workload),
                     unit.empty() || unit == "call" ? "" : escape_xml(", one call is one " + unit));
  out += facts(cell, comparison);
  out += fmt::format(R"(<p class="why">{} &nbsp;{}</p>)", verdict_mark(comparison), escape_xml(why(cell, rich)));
  const std::string agreed = fmt::format("{}", fmt::join(cell.validity().checks(), ", "));
  if (!agreed.empty()) {
    out += fmt::format(R"(<p class="sub">Checked before timing: {}.</p>)", escape_xml(agreed));
  }
  out += figures(cell) + html_ladder(cell) + html_profile(cell);
  out += "<h3>Numbers</h3>\n" + folded("Arms", "", arms_table(cell), true) + comparisons_table(cell) +
         html_evidence(cell) + metrics_table(cell) + exact_table(cell) + html_usage(cell) + fused_table(cell) +
         passes_tables(cell);
  if (const std::string reproduce = cell.reproduce(); !reproduce.empty()) {
    out += fmt::format(R"(<pre class="command"><code>{}</code></pre>)", escape_xml(reproduce));
  }
  return out + "</section>\n";
}

}  // namespace diptych::reports
