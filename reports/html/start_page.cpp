#include "reports/html/start_page.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/html/fields.h"
#include "reports/html/history_chart.h"
#include "reports/html/links.h"
#include "reports/html/page.h"
#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/views/history_views.h"

namespace diptych::reports {
namespace {

constexpr std::size_t kSeriesShown = 600;
constexpr std::size_t kRunsShown = 400;
constexpr std::size_t kLeftOutShown = 100;

std::string shown(const std::string& name) { return shorten(printable(name), 90); }

std::string mark_of(Trend trend) {
  const std::string tone = trend_tone(trend);
  return tone == "dim" ? "none" : tone;
}

std::string mark_of(const std::optional<Verdict>& verdict) {
  return verdict == Verdict::regressed ? "slower" : verdict == Verdict::improved ? "faster" : "none";
}

std::string link_of(const RunOfHistory& run) { return run.report.empty() ? "" : relative_link(run.report); }

HtmlField run_field(const RunOfHistory& run) {
  return {shown(run.folder), run.report.empty() ? "no report.html" : "", {}, "wrap", "", link_of(run)};
}

HtmlField started_field(const RunOfHistory& run) {
  return {run.created.substr(0, 10), run.created.size() > 16 ? run.created.substr(11, 5) + " UTC" : ""};
}

HtmlField change_field(const std::optional<Estimate>& ratio) {
  if (!ratio) {
    return {"-"};
  }
  const std::string note =
      ratio->has_interval() ? fmt::format("[{}, {}]", percent_change(*ratio->low), percent_change(*ratio->high)) : "";
  return {percent_change(ratio->value), note, std::log(ratio->value)};
}

/// Of how many more there is no room.
std::string more_of(std::size_t all, std::size_t shown_ones, const char* what) {
  return all <= shown_ones
             ? ""
             : fmt::format(
                   "<p class=\"sub\">{} {} are not on this page; <code>diptych report --format json</code> has "
                   "all.</p>",
                   all - shown_ones, what);
}

// ---- The cells

std::string cells_overview(const History& history) {
  HtmlTable table({"cell", "times, run by run", "newest", "change", "lately", "runs", "newest run"}, {1, 4, 6});
  table.sortable().filterable("cells");
  for (std::size_t i = 0; i < std::min(history.series.size(), kSeriesShown); ++i) {
    const HistorySeries& series = history.series[i];
    const LatestChange& latest = series.latest;
    const bool is_change = latest.trend == Trend::slower || latest.trend == Trend::faster;
    const RunOfHistory& newest = history.runs[series.newest().run];
    HtmlField picture{"", "", static_cast<double>(i), "picture"};
    picture.picture = sparkline(series);
    HtmlField run = started_field(newest);
    run.note = revision_name(newest);
    run.href = link_of(newest);
    table.row({{shown(series.cell()), shown(series_note(history, series)), {}, "wrap", "", fmt::format("#cell-{}", i)},
               std::move(picture),
               time_field(series.newest().seconds),
               {is_change ? percent_change(latest.ratio) : "-", "",
                is_change ? std::optional(std::log(latest.ratio)) : std::nullopt},
               {trend_name(latest.trend), shown(trend_detail(history, series)), {}, "wrap", mark_of(latest.trend)},
               {fmt::format("{}", series.points.size())},
               std::move(run)});
  }
  return fmt::format(
      "<section><h2>Cells</h2><p class=\"sub\">Each a workload under an arm, on one machine. Lately: "
      "among its last {} runs.</p>{}{}</section>\n",
      kLately, table.finish(), more_of(history.series.size(), kSeriesShown, "cells"));
}

std::string run_count(std::size_t count) { return fmt::format("{} run{}", count, count == 1 ? "" : "s"); }

std::string level_of_point(const HistorySeries& series, std::size_t point) {
  for (std::size_t i = 1; i < series.levels.size(); ++i) {
    if (series.levels[i].begin == point) {
      return fmt::format("a new level: {} to {}",
                         format_seconds(std::optional(series.levels[i - 1].seconds), Glyphs::typographic),
                         format_seconds(std::optional(series.levels[i].seconds), Glyphs::typographic));
    }
  }
  return "";
}

std::string remarks_of(const HistorySeries& series, std::size_t point) {
  std::vector<std::string> parts;
  const HistoryPoint& of = series.points[point];
  for (const std::string& part : {level_of_point(series, point), of.detail}) {
    if (!part.empty()) {
      parts.push_back(part);
    }
  }
  parts.insert(parts.end(), of.counts.begin(), of.counts.end());
  return shorten(printable(fmt::format("{}", fmt::join(parts, "; "))), 200);
}

std::string points_table(const History& history, const HistorySeries& series) {
  HtmlTable table({"started", "run", "revision", "time", "change", "verdict", "because"}, {1, 2, 5, 6});
  const std::size_t oldest = series.points.size() - std::min(series.points.size(), kPointsShown);
  for (std::size_t i = series.points.size(); i > oldest; --i) {
    const HistoryPoint& point = series.points[i - 1];
    const RunOfHistory& run = history.runs[point.run];
    table.row({started_field(run),
               run_field(run),
               {revision_name(run)},
               time_field(point.seconds),
               change_field(point.ratio),
               {point_verdict(point), "", {}, "", mark_of(point.verdict)},
               {remarks_of(series, i - 1), "", {}, "wrap"}});
  }
  return table.finish() + more_of(series.points.size(), kPointsShown, "older runs");
}

std::string cell_details(const History& history) {
  std::string out;
  for (std::size_t i = 0; i < std::min(history.series.size(), kSeriesShown); ++i) {
    const HistorySeries& series = history.series[i];
    const std::string note = series_note(history, series);
    const std::string chart = history_chart(history, series);
    const std::string body =
        figure("Times, run by run",
               "bars: 95 % interval of the run; thick lines: levels; grey: contaminated or invalid, and not compared",
               chart.empty() ? "" : "<div class=\"history\">" + chart + "</div>") +
        points_table(history, series) + html_commands(series_next(history, series));
    out += fmt::format(
        "<div id=\"cell-{}\">{}</div>\n", i,
        folded(shown(series.cell()),
               fmt::format("{}{}{}", shown(note), note.empty() ? "" : ", ", run_count(series.points.size())), body));
  }
  return fmt::format("<section class=\"cell\"><h2>Each cell</h2>{}</section>\n", out);
}

// ---- Runs, machines, what was left out

struct ChangesOfRun {
  std::size_t slower = 0, faster = 0;
};

std::vector<ChangesOfRun> changes_by_run(const History& history) {
  std::vector<ChangesOfRun> out(history.runs.size());
  for (const HistorySeries& series : history.series) {
    for (const HistoryPoint& point : series.points) {
      out[point.run].slower += point.verdict == Verdict::regressed ? 1 : 0;
      out[point.run].faster += point.verdict == Verdict::improved ? 1 : 0;
    }
  }
  return out;
}

std::string machine_name_of(const MachineOfHistory& machine) { return machine.is_known() ? machine.name : "unknown"; }

HtmlField count_field(std::size_t count, const char* tone) {
  return {fmt::format("{}", count), "", {}, "", count > 0 ? tone : ""};
}

std::string runs_section(const History& history) {
  HtmlTable table({"started", "run", "machine", "revision", "size", "status", "cells", "slower", "faster"},
                  {1, 2, 3, 4, 5});
  table.sortable().filterable("runs");
  const std::vector<ChangesOfRun> changes = changes_by_run(history);
  const std::size_t oldest = history.runs.size() - std::min(history.runs.size(), kRunsShown);
  for (std::size_t i = history.runs.size(); i > oldest; --i) {
    const RunOfHistory& run = history.runs[i - 1];
    table.row({started_field(run),
               run_field(run),
               {machine_name_of(history.machines[run.machine])},
               {revision_name(run)},
               {shown(run.size)},
               {shown(run.status)},
               {fmt::format("{}", run.cells)},
               count_field(changes[i - 1].slower, "slower"),
               count_field(changes[i - 1].faster, "faster")});
  }
  return fmt::format(
      "<section class=\"cell\"><h2>Runs</h2><p class=\"sub\">The newest first. Slower and faster: cells, "
      "against the run before that each can be compared with.</p>{}{}</section>\n",
      table.finish(), more_of(history.runs.size(), kRunsShown, "older runs"));
}

std::string machines_section(const History& history) {
  HtmlTable table({"machine", "CPU", "kernel", "runs", "from", "to", "differs from the first in"}, {1, 2, 6});
  for (const MachineOfHistory& machine : history.machines) {
    const MeasuringEnvironment fields = machine.fields;
    const std::string kernel = fields.kernel();
    table.row({{machine_name_of(machine)},
               {machine.model.empty() ? "not recorded" : shown(machine.model), "", {}, "wrap"},
               {kernel.empty() ? "-" : shown(kernel)},
               {fmt::format("{}", machine.runs)},
               {day_of(history.runs[machine.first])},
               {day_of(history.runs[machine.last])},
               {shorten(printable(fmt::format("{}", fmt::join(machine.differences, "; "))), 300), "", {}, "wrap"}});
  }
  return fmt::format(
      "<section class=\"cell\"><h2>Machines</h2><p class=\"sub\">Times of different machines are not "
      "compared.</p>{}</section>\n",
      table.finish());
}

std::string left_out_section(const History& history) {
  if (history.left_out.empty()) {
    return "";
  }
  HtmlTable table({"left out", "because"}, {1});
  for (std::size_t i = 0; i < std::min(history.left_out.size(), kLeftOutShown); ++i) {
    const LeftOut& left = history.left_out[i];
    table.row({{shown(left.path), "", {}, "wrap"}, {shorten(printable(left.reason), 300), "", {}, "wrap"}});
  }
  return fmt::format("<section class=\"cell\"><h2>Left out</h2>{}{}</section>\n", table.finish(),
                     more_of(history.left_out.size(), kLeftOutShown, "files"));
}

}  // namespace

std::string render_start_page(const History& history) {
  Page page;
  page.name = history.folder;
  page.beside = "history";
  page.headline = history_headline(history);
  page.sentences = history_sentences(history);
  const std::vector<Suggestion> next = history_next(history);
  page.body = fmt::format("<section class=\"next\"><h3>What to do next</h3>{}</section>\n",
                          next.empty() ? "<p class=\"why\">Nothing is left to do.</p>" : html_commands(next));
  if (!history.series.empty()) {
    page.body += cells_overview(history) + cell_details(history);
  }
  page.body += runs_section(history) + machines_section(history) + left_out_section(history);
  page.footer =
      "Verdicts are those of diptych compare, each run against the one before that it can be compared with: the same "
      "cell, machine and method. The runs were not interleaved, so what changed on the machine in between counts as a "
      "change; diptych gate measures in turns. A level has at least three runs.";
  page.data_id = "history";
  return render_page(page, history_document(history, kPointsShown));
}

}  // namespace diptych::reports
