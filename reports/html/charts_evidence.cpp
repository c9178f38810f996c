// What the estimates rest on: the raw rounds, and the cost over many calls.

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "reports/html/charts.h"
#include "reports/run/run.h"
#include "reports/statistics/statistics.h"
#include "reports/text/format.h"
#include "reports/text/svg.h"
#include "reports/text/text.h"
#include "reports/views/summary.h"

namespace diptych::reports {
namespace {

constexpr double left = 62;

void gridlines(SvgCanvas& svg, const Scale& y, const std::vector<double>& ticks, double right) {
  for (const double tick : ticks) {
    svg.line(left, y(tick), right, y(tick), "grid");
    svg.text(left - 8, y(tick) + 4, time_label(tick), "tick", "end");
  }
}

// Ticks of a logarithmic axis: 1, 2 and 5 times the powers of ten.
std::vector<double> logarithmic_ticks(double from, double to) {
  std::vector<double> ticks;
  for (const double power : decade_ticks(from, to)) {
    for (const double lead : {1.0, 2.0, 5.0}) {
      if (lead * power >= from && lead * power <= to) {
        ticks.push_back(lead * power);
      }
    }
  }
  return ticks;
}

struct Range {
  double low = 0, high = 0;
};

Range range_of_rounds(const Cell& cell) {
  Range range;
  for (const Process process : cell.processes()) {
    for (const Round round : process.rounds()) {
      for (const auto& [arm, value] : round.all_seconds().items()) {
        if (value.is_number() && value.get<double>() > 0) {
          const double time = value.get<double>();
          range.low = range.low == 0 ? time : std::min(range.low, time);
          range.high = std::max(range.high, time);
        }
      }
    }
  }
  return range;
}

}  // namespace

std::string rounds_chart(const Cell& cell) {
  const Range range = range_of_rounds(cell);
  const Parts<Arm> arms = cell.arms();
  const Parts<Process> processes = cell.processes();
  if (range.low == 0 || arms.empty()) {
    return "";
  }
  constexpr double top = 12;
  constexpr double bottom = 236;
  const bool wide = range.high > 3 * range.low;
  const double pad = wide ? 0 : 0.08 * (range.high - range.low + 0.01 * range.high);
  const double low = wide ? range.low / 1.1 : range.low - pad;
  const double high = wide ? range.high * 1.1 : range.high + pad;
  const Scale y(low, high, bottom, top, wide ? Scale::Kind::logarithmic : Scale::Kind::linear);
  SvgCanvas svg(kChartWidth, bottom + 26, "Every measured round, by process");
  gridlines(svg, y, wide ? logarithmic_ticks(low, high) : round_ticks(low, high, 4), kChartWidth);
  const double group = (kChartWidth - left) / static_cast<double>(processes.size());
  const double lane = 0.82 * group / static_cast<double>(arms.size());
  const std::size_t label_every = 1 + processes.size() / 16;
  for (std::size_t a = 0; a < arms.size(); ++a) {
    const std::string name = arms[a].name();
    std::string dots;
    std::string medians;
    for (std::size_t p = 0; p < processes.size(); ++p) {
      const Parts<Round> rounds = processes[p].rounds();
      const double start = left + group * (static_cast<double>(p) + 0.09) + lane * static_cast<double>(a);
      std::vector<double> times;
      for (std::size_t r = 0; r < rounds.size(); ++r) {
        const auto time = rounds[r].seconds(name);
        if (time && *time > 0) {
          const double x = start + lane * (static_cast<double>(r) + 0.5) / static_cast<double>(rounds.size());
          dots += fmt::format("M{} {}h0", coordinate(x), coordinate(y(*time)));
          times.push_back(*time);
        }
      }
      if (!times.empty()) {
        medians += fmt::format("M{} {}h{}", coordinate(start), coordinate(y(median(times))), coordinate(lane));
      }
    }
    svg.path(dots, "dots " + arm_colour(name, a));
    svg.path(medians, "median");
  }
  for (std::size_t p = 0; p < processes.size(); ++p) {
    const double x = left + group * static_cast<double>(p);
    if (p > 0) {
      svg.line(x, top, x, bottom, "grid");
    }
    if (p % label_every == 0) {
      const bool roomy = processes.size() <= 6;
      svg.text(x + group / 2, bottom + 18, fmt::format("{}{}", roomy ? "process " : "", p + 1), "tick", "middle");
    }
  }
  return std::move(svg).finish();
}

std::string break_even_chart(const Cell& cell) {
  const Comparison comparison = cell.main_comparison();
  const BreakEvenEntry value = comparison.break_even();
  const std::string names[2] = {comparison.base(), comparison.arm()};
  double seconds[2] = {0, 0};
  double compile[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    const Arm arm = cell.arm(names[i]);
    const auto time = arm.seconds();
    const auto cost = arm.compile_seconds();
    if (!time || !cost || !value) {
      return "";
    }
    seconds[i] = time->value;
    compile[i] = cost->value;
  }
  const auto calls = value.calls();
  const bool reached = value.reached() && calls;
  const double extra = std::abs(compile[1] - compile[0]);
  // If it is not reached: enough calls to see the slopes next to the compile cost.
  const double span = std::max(10.0, reached && *calls > 0 ? 2.2 * *calls : 2 * extra / std::max(seconds[0], 1e-12));
  constexpr double top = 14;
  constexpr double bottom = 214;
  constexpr double right = kChartWidth - 92;
  const double most = std::max(compile[0] + span * seconds[0], compile[1] + span * seconds[1]);
  const Scale x(0, span, left, right);
  const Scale y(0, most, bottom, top);
  SvgCanvas svg(kChartWidth, bottom + 40, "Cumulative time, compile included, against the number of calls");
  if (reached && value.low()) {
    const double low = std::min(x(*value.low()), right);
    const double high = std::min(x(value.high().value_or(span)), right);
    svg.rect(low, top, high - low, bottom - top, "band");
  }
  gridlines(svg, y, round_ticks(0, most, 4), right);
  for (const double tick : round_ticks(0, span, 4)) {
    svg.text(x(tick), bottom + 18, format_count(tick), "tick", "middle");
  }
  svg.text(0.5 * (left + right), bottom + 36, "calls", "tick", "middle");
  double label_y[2] = {y(compile[0] + span * seconds[0]), y(compile[1] + span * seconds[1])};
  // The names of lines that end close together would overlap.
  if (std::abs(label_y[0] - label_y[1]) < 15) {
    const int upper = label_y[0] <= label_y[1] ? 0 : 1;
    label_y[1 - upper] = label_y[upper] + 15;
  }
  for (int i = 0; i < 2; ++i) {
    const std::string css = arm_colour(names[i], static_cast<std::size_t>(i));
    svg.path(fmt::format("M{} {}L{} {}", coordinate(left), coordinate(y(compile[i])), coordinate(right),
                         coordinate(y(compile[i] + span * seconds[i]))),
             "curve " + css);
    svg.text(right + 8, label_y[i] + 4, shorten(printable(names[i]), 12), "ink");
  }
  if (!reached) {
    svg.text(left + 10, top + 12, break_even_text(value), "num");
  }
  if (reached && *calls > 0) {
    const double at = compile[0] + *calls * seconds[0];
    svg.line(x(*calls), y(at), x(*calls), bottom, "guide");
    svg.path(fmt::format("M{} {}h0", coordinate(x(*calls)), coordinate(y(at))), "crossing");
    svg.text(x(*calls) - 10, y(at) - 10, break_even_text(value), "num", "end");
  }
  return std::move(svg).finish();
}

}  // namespace diptych::reports
