#include "reports/html/history_chart.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "reports/html/charts.h"
#include "reports/text/format.h"
#include "reports/text/svg.h"
#include "reports/text/text.h"
#include "reports/views/history_views.h"

namespace diptych::reports {
namespace {

constexpr double kLeastHeight = 0.06;  // of the times that a picture spans

struct Frame {
  double left, right, top, bottom;
};

std::size_t first_shown(const HistorySeries& series) {
  return series.points.size() - std::min(series.points.size(), kPointsShown);
}

struct TimeRange {
  double low = 0, high = 0;

  void hold(double seconds) {
    low = high == 0 ? seconds : std::min(low, seconds);
    high = std::max(high, seconds);
  }
};

std::optional<TimeRange> range_of(const HistorySeries& series, bool with_intervals) {
  TimeRange range;
  for (std::size_t i = first_shown(series); i < series.points.size(); ++i) {
    if (const auto& seconds = series.points[i].seconds) {
      range.hold(seconds->value);
      if (with_intervals && seconds->has_interval() && series.points[i].is_usable()) {
        range.hold(std::clamp(*seconds->low, seconds->value / 2, seconds->value));
        range.hold(std::clamp(*seconds->high, seconds->value, 2 * seconds->value));
      }
    }
  }
  if (range.high == 0) {
    return std::nullopt;
  }
  const double middle = 0.5 * (range.low + range.high);
  range.low = std::min(range.low, middle * (1 - kLeastHeight / 2));
  range.high = std::max(range.high, middle * (1 + kLeastHeight / 2));
  return range;
}

std::string description_of(const HistorySeries& series) {
  const std::size_t first = first_shown(series);
  std::size_t changes = 0;
  for (std::size_t i = 1; i < series.levels.size(); ++i) {
    changes += series.levels[i].begin > first ? 1 : 0;
  }
  const auto time_of = [](const HistoryPoint& point) {
    return format_seconds(value_of(point.seconds), Glyphs::typographic);
  };
  return fmt::format("{} runs, from {} to {}, {} change{} of level", series.points.size() - first,
                     time_of(series.points[first]), time_of(series.points.back()), changes, changes == 1 ? "" : "s");
}

/// Draws a series into a frame.
class SeriesDrawing {
 public:
  SeriesDrawing(const HistorySeries& series, SvgCanvas& svg, const Frame& frame, const TimeRange& range)
      : series_(series),
        svg_(svg),
        frame_(frame),
        first_(first_shown(series)),
        y_(range.low, range.high, frame.bottom, frame.top) {}

  double x(std::size_t point) const {
    const std::size_t count = series_.points.size() - first_;
    return count == 1 ? 0.5 * (frame_.left + frame_.right)
                      : frame_.left + (frame_.right - frame_.left) * static_cast<double>(point - first_) /
                                          static_cast<double>(count - 1);
  }
  const Scale& y() const { return y_; }

  void levels() const {
    for (const HistoryLevel& level : series_.levels) {
      if (level.end <= first_) {
        continue;
      }
      const std::size_t begin = std::max(level.begin, first_);
      if (level.begin > first_ && level.begin != series_.levels.front().begin) {
        const double between = 0.5 * (x(level.begin - 1) + x(level.begin));
        svg_.line(between, frame_.top, between, frame_.bottom, "guide");
      }
      svg_.line(x(begin), y_(level.seconds), x(level.end - 1), y_(level.seconds), "level");
    }
  }

  void intervals() const {
    std::string path;
    each_point([&](std::size_t i, const HistoryPoint& point) {
      if (point.is_usable() && point.seconds->has_interval()) {
        path += fmt::format("M{} {}V{}", coordinate(x(i)), coordinate(clamped(y_(*point.seconds->low))),
                            coordinate(clamped(y_(*point.seconds->high))));
      }
    });
    svg_.path(path, "spread");
  }

  void points() const {
    std::string line;
    std::string unusable;
    std::string usable;
    each_point([&](std::size_t i, const HistoryPoint& point) {
      const std::string at = fmt::format("{} {}", coordinate(x(i)), coordinate(y_(point.seconds->value)));
      if (point.is_usable()) {
        line += (line.empty() ? "M" : "L") + at;
        usable += "M" + at + "h0";
      } else {
        unusable += "M" + at + "h0";
      }
    });
    svg_.path(line, "trend");
    svg_.path(usable, "dots ink");
    svg_.path(unusable, "dots c5");
    mark_change();
  }

 private:
  template <class Use>
  void each_point(const Use& use) const {
    for (std::size_t i = first_; i < series_.points.size(); ++i) {
      if (series_.points[i].seconds) {
        use(i, series_.points[i]);
      }
    }
  }
  double clamped(double y) const { return std::clamp(y, frame_.top, frame_.bottom); }

  /// The run of the last change, in the colour of its verdict.
  void mark_change() const {
    const LatestChange& latest = series_.latest;
    if (latest.trend != Trend::slower && latest.trend != Trend::faster) {
      return;
    }
    each_point([&](std::size_t i, const HistoryPoint& point) {
      if (point.run == latest.head) {
        svg_.path(fmt::format("M{} {}h0", coordinate(x(i)), coordinate(y_(point.seconds->value))),
                  latest.trend == Trend::slower ? "dots large c0" : "dots large c1");
      }
    });
  }

  const HistorySeries& series_;
  SvgCanvas& svg_;
  Frame frame_;
  std::size_t first_;
  Scale y_;
};

}  // namespace

std::string sparkline(const HistorySeries& series) {
  const auto range = range_of(series, false);
  if (!range) {
    return "";
  }
  SvgCanvas svg(150, 34, description_of(series));
  const SeriesDrawing drawing(series, svg, {5, 145, 5, 29}, *range);
  drawing.levels();
  drawing.points();
  return std::move(svg).finish();
}

std::string history_chart(const History& history, const HistorySeries& series) {
  const auto range = range_of(series, true);
  if (!range) {
    return "";
  }
  constexpr double top = 12;
  constexpr double bottom = 172;
  constexpr double left = 70;
  SvgCanvas svg(kChartWidth, bottom + 26, description_of(series));
  const SeriesDrawing drawing(series, svg, {left + 10, kChartWidth - 10, top, bottom}, *range);
  for (const double tick : round_ticks(range->low, range->high, 4)) {
    svg.line(left, drawing.y()(tick), kChartWidth, drawing.y()(tick), "grid");
    svg.text(left - 8, drawing.y()(tick) + 4, time_label(tick), "tick", "end");
  }
  drawing.levels();
  drawing.intervals();
  drawing.points();
  const std::size_t first = first_shown(series);
  const auto label = [&](std::size_t point, const char* anchor) {
    svg.text(drawing.x(point), bottom + 20, printable(day_of(history.runs[series.points[point].run])), "tick", anchor);
  };
  if (series.points.size() - first > 1) {
    label(first, "start");
    label(series.points.size() - 1, "end");
  } else {
    label(first, "middle");
  }
  return std::move(svg).finish();
}

}  // namespace diptych::reports
