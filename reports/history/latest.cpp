#include "reports/history/latest.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "reports/analysis/change_points.h"

namespace diptych::reports {
namespace {

struct Event {
  std::size_t point = 0;
  LatestChange change;
  double before = 0;  // seconds of the base
};

std::size_t earliest_of(const HistorySeries& series) {
  return series.points.size() > kLately ? series.points.size() - kLately : 0;
}

std::vector<Event> judged_events(const HistorySeries& series) {
  std::vector<Event> events;
  for (std::size_t i = earliest_of(series); i < series.points.size(); ++i) {
    const HistoryPoint& point = series.points[i];
    const bool is_slower = point.verdict == Verdict::regressed;
    if ((is_slower || point.verdict == Verdict::improved) && point.base && point.ratio && point.seconds) {
      const Trend trend = is_slower ? Trend::slower : Trend::faster;
      events.push_back(
          {i, {trend, *point.base, point.run, point.ratio->value, false}, point.seconds->value / point.ratio->value});
    }
  }
  return events;
}

std::vector<Event> level_events(const HistorySeries& series) {
  std::vector<Event> events;
  for (std::size_t i = 1; i < series.levels.size(); ++i) {
    const HistoryLevel& level = series.levels[i];
    if (level.begin < earliest_of(series)) {
      continue;
    }
    std::size_t base = level.begin - 1;
    while (base > 0 && !series.points[base].is_usable()) {
      --base;
    }
    const double before = series.levels[i - 1].seconds;
    const double ratio = level.seconds / before;
    events.push_back({level.begin,
                      {ratio > 1 ? Trend::slower : Trend::faster, series.points[base].run,
                       series.points[level.begin].run, ratio, true},
                      before});
  }
  return events;
}

/// The newest time is that before the first of several changes.
bool cancel_out(const std::vector<Event>& events, const HistorySeries& series) {
  const auto newest = std::find_if(series.points.rbegin(), series.points.rend(),
                                   [](const HistoryPoint& point) { return point.is_usable(); });
  return events.size() > 1 && newest != series.points.rend() &&
         std::abs(std::log(newest->seconds->value / events.front().before)) < same_level;
}

Trend trend_of_point(const HistoryPoint& point) {
  if (point.verdict == Verdict::equivalent) {
    return Trend::same;
  }
  if (point.verdict == Verdict::method_changed) {
    return Trend::method_changed;
  }
  return point.verdict || point.base ? Trend::cannot_tell : Trend::first;
}

int rank_of(Trend trend) {
  switch (trend) {
    case Trend::slower:
      return 0;
    case Trend::faster:
      return 1;
    case Trend::method_changed:
      return 2;
    case Trend::cannot_tell:
      return 3;
    case Trend::first:
      return 4;
    case Trend::same:
      return 5;
  }
  return 6;
}

}  // namespace

LatestChange latest_change(const HistorySeries& series) {
  std::vector<Event> events = judged_events(series);
  const std::vector<Event> levels = level_events(series);
  events.insert(events.end(), levels.begin(), levels.end());
  // At one point the verdict of the comparison counts: it stands last.
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.point, !a.change.is_level) < std::tuple(b.point, !b.change.is_level);
  });
  if (!events.empty() && !cancel_out(events, series)) {
    return events.back().change;
  }
  const HistoryPoint& newest = series.newest();
  LatestChange change;
  change.trend = events.empty() ? trend_of_point(newest) : Trend::same;
  change.base = newest.base.value_or(newest.run);
  change.head = newest.run;
  change.ratio = newest.ratio ? newest.ratio->value : 1;
  return change;
}

void sort_series(std::vector<HistorySeries>& series) {
  const auto key = [](const HistorySeries& of) {
    return std::tuple(!of.is_current, rank_of(of.latest.trend), -std::abs(std::log(of.latest.ratio)));
  };
  std::stable_sort(series.begin(), series.end(), [&](const HistorySeries& a, const HistorySeries& b) {
    const auto [left, right] = std::pair(key(a), key(b));
    return left != right ? left < right
                         : std::tie(a.workload, a.arm, a.machine) < std::tie(b.workload, b.arm, b.machine);
  });
}

}  // namespace diptych::reports
