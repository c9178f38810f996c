// Where the time goes: the arms' bars and the ladder between them.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/charts.h"
#include "reports/format.h"
#include "reports/json_access.h"
#include "reports/ladder.h"
#include "reports/svg.h"
#include "reports/text.h"

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

std::string bars_chart(const Json& cell) {
  const Json& arms = list(cell, "arms");
  double most = 0;
  std::size_t rows = 0;
  for (const Json& arm : arms) {
    if (const auto seconds = estimate(member(arm, "seconds"))) {
      most = std::max(most, seconds->high.value_or(seconds->value));
      ++rows;
    }
  }
  if (rows == 0) {
    return "";
  }
  constexpr double left = 104;
  constexpr double right = kChartWidth - 76;
  constexpr double row_height = 32;
  const double height = 6 + row_height * static_cast<double>(rows);
  const Scale x(0, most, left, right);
  SvgCanvas svg(kChartWidth, height, "Time per call of each arm, with its interval");
  double y = 6;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const auto seconds = estimate(member(arms[i], "seconds"));
    if (!seconds) {
      continue;
    }
    const std::string name = text(arms[i], "name");
    svg.text(left - 10, y + 13, label(name, 14), "ink", "end");
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

std::string ladder_chart(const Json& cell) {
  const Json& rungs = rungs_of(cell);
  const Json& arms = list(cell, "arms");
  const auto time_of = [&](const std::string& name) -> std::optional<Estimate> {
    for (const Json& arm : arms) {
      if (text(arm, "name") == name) {
        return estimate(member(arm, "seconds"));
      }
    }
    return std::nullopt;
  };
  if (rungs.empty()) {
    return "";
  }
  const std::string first = text(rungs.front(), "from");
  const std::string last = text(rungs.back(), "to");
  const auto start = time_of(first);
  if (!start || !time_of(last)) {
    return "";
  }
  // The levels follow the savings and not the arms' own estimates, so that every step starts where the last one ended.
  double most = start->value;
  double level = start->value;
  for (const Json& rung : rungs) {
    const auto saved = estimate(member(rung, "saved_seconds"));
    level -= saved ? saved->value : 0;
    most = std::max(most, level);
  }
  constexpr double row_height = 44;
  const double height = row_height * static_cast<double>(rungs.size() + (member(cell, "ladder").is_object() ? 3 : 2));
  const Scale x(0, most, 1, kChartWidth - 130);
  SvgCanvas svg(kChartWidth, height, "From the first arm to the last, what each cause saves");
  double y = 0;
  const auto row = [&](const std::string& title, double from, double to, const std::string& css,
                       const std::string& value) {
    svg.text(1, y + 13, title, "muted");
    bar(svg, x(from), x(to), y + 19, css);
    svg.text(std::max(x(from), x(to)) + 8, y + 32, value, "num");
    y += row_height;
  };
  row(label(first, 40), 0, start->value, arm_colour(first, 0), time_label(start->value));
  level = start->value;
  for (const Json& rung : rungs) {
    const auto saved = estimate(member(rung, "saved_seconds"));
    const auto share = number(rung, "share");
    const double step = saved ? saved->value : 0;
    std::string cause = text(rung, "cause");
    cause = cause.empty() ? fmt::format("{} to {}", text(rung, "from"), text(rung, "to"))
                          : fmt::format("{} ({})", cause, text(rung, "to"));
    const bool unclear = saved && saved->has_interval() && !saved->excludes(0);
    const std::string css = unclear ? "unclear" : step >= 0 ? "saved" : "added";
    svg.line(x(level), y - 9, x(level), y + 35, "guide");
    row(label(cause, 64), level - step, level, css,
        fmt::format("{}{}{}", step >= 0 ? "−" : "+", time_label(std::abs(step)),
                    share ? ", " + format_percent(*share) : ""));
    level -= step;
  }
  if (const auto residual = estimate(member(member(cell, "ladder"), "residual_seconds"))) {
    svg.line(x(level), y - 9, x(level), y + 35, "guide");
    row("residual (no rung explains it)", level - residual->value, level, "unclear",
        fmt::format("{}{}", residual->value >= 0 ? "−" : "+", time_label(std::abs(residual->value))));
    level -= residual->value;
  }
  svg.line(x(level), y - 9, x(level), y + 35, "guide");
  row(label(last, 40), 0, level, arm_colour(last, rungs.size()), time_label(level));
  return std::move(svg).finish();
}

}  // namespace diptych::reports
