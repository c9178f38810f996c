// Where the time goes: the arms' bars and the ladder between them.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/analysis/ladder.h"
#include "reports/html/charts.h"
#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/svg.h"
#include "reports/text/text.h"
#include "reports/views/summary.h"

namespace diptych::reports {
namespace {

std::string label(const std::string& name, int columns) { return shorten(printable(name), columns); }

void bar(SvgCanvas& svg, double x1, double x2, double y, const std::string& css) {
  svg.rect(std::min(x1, x2), y, std::max(std::abs(x2 - x1), 1.0), 16, css);
}

}  // namespace

std::string time_label(double seconds) { return format_seconds(std::optional<double>(seconds), Glyphs::typographic); }

std::string arm_colour(const std::string& name, std::size_t position) {
  if (name == "eager") {
    return "c0";
  }
  return name == "graph" ? "c1" : fmt::format("c{}", 2 + (position + 6) % 7);
}

std::string bars_chart(const Cell& cell) {
  const Parts<Arm> arms = cell.arms();
  constexpr int longest_name = 24;
  double most = 0;
  double left = 104;  // room for the names
  std::size_t rows = 0;
  for (const Arm arm : arms) {
    if (const auto seconds = arm.seconds()) {
      most = std::max(most, seconds->high.value_or(seconds->value));
      left = std::max(left, text_width(label(arm.name(), longest_name), 13) + 12);
      ++rows;
    }
  }
  if (rows == 0) {
    return "";
  }
  constexpr double right = kChartWidth - 76;
  constexpr double row_height = 32;
  const double height = 6 + row_height * static_cast<double>(rows);
  const Scale x(0, most, left, right);
  SvgCanvas svg(kChartWidth, height, "Time per call of each arm, with its interval");
  double y = 6;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const auto seconds = arms[i].seconds();
    if (!seconds) {
      continue;
    }
    const std::string name = arms[i].name();
    svg.text(left - 10, y + 13, label(name, longest_name), "ink", "end");
    bar(svg, left, x(seconds->value), y, arm_colour(name, i));
    if (seconds->has_interval()) {
      svg.whisker(x(*seconds->low), x(*seconds->high), y + 8);
    }
    svg.text(x(seconds->high.value_or(seconds->value)) + 8, y + 13, time_label(seconds->value), "num");
    y += row_height;
  }
  svg.line(left, 0, left, height, "axis");
  return std::move(svg).finish();
}

std::string ladder_chart(const Cell& cell) {
  const Parts<Rung> rungs = cell.rungs();
  if (rungs.empty()) {
    return "";
  }
  const std::string first = rungs.front().from();
  const std::string last = rungs.back().to();
  const auto start = cell.arm(first).seconds();
  const auto end = cell.arm(last).seconds();
  if (!start || !end) {
    return "";
  }
  // Every step ends at its arm's own figure, so that an arm has the same time in all charts and tables.
  const auto residual = cell.ladder().residual_seconds();
  double most = std::max(start->value, end->value + (residual ? std::max(0.0, residual->value) : 0));
  for (const Rung rung : rungs) {
    if (const auto span = span_of(cell, rung)) {
      most = std::max({most, span->from, span->to});
    }
  }
  constexpr double row_height = 44;
  const double height = row_height * static_cast<double>(rungs.size() + (cell.ladder() ? 3 : 2));
  constexpr double widest_value = 190;  // "costs 29.5 us, -12.5 %", bold
  const Scale x(0, most, 1, kChartWidth - widest_value);
  SvgCanvas svg(kChartWidth, height, "From the first arm to the last, what each cause saves");
  double y = 0;
  const auto row = [&](const std::string& title, double from, double to, const std::string& css,
                       const std::string& value) {
    svg.text(1, y + 13, title, "muted");
    bar(svg, x(std::max(0.0, from)), x(to), y + 19, css);
    svg.text(x(std::max(from, to)) + 8, y + 32, value, "num");
    y += row_height;
  };
  row(label(first, 40), 0, start->value, arm_colour(first, 0), time_label(start->value));
  double level = start->value;
  for (const Rung rung : rungs) {
    const auto saved = rung.saved_seconds();
    const auto share = rung.share();
    const RungSpan span = span_of(cell, rung).value_or(RungSpan{level, level});
    const Saving saving = saving_of(saved.value_or(Estimate{}));
    std::string cause = rung.cause();
    cause = cause.empty() ? fmt::format("{} to {}", rung.from(), rung.to()) : fmt::format("{} ({})", cause, rung.to());
    const bool unclear = saved && saved->has_interval() && !rung.has_effect();
    const std::string css = unclear ? "unclear" : saving.costs ? "added" : "saved";
    svg.line(x(level), y - 9, x(level), y + 35, "guide");
    row(label(cause, 64), span.from, span.to, css,
        rung.is_same_graph() ? "the same graph"
                             : fmt::format("{} {}{}", saving.costs ? "costs" : "saves", time_label(saving.amount.value),
                                           share ? ", " + format_percent(*share) : ""));
    level = span.to;
  }
  if (residual) {
    svg.line(x(level), y - 9, x(level), y + 35, "guide");
    row("residual (no rung explains it)", level + residual->value, level, "unclear", time_label(residual->value));
  }
  svg.line(x(level), y - 9, x(level), y + 35, "guide");
  row(label(last, 40), 0, level, arm_colour(last, rungs.size()), time_label(level));
  return std::move(svg).finish();
}

}  // namespace diptych::reports
