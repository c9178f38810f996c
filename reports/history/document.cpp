#include <algorithm>
#include <string_view>

#include "reports/history/history.h"
#include "reports/run/json_access.h"
#include "reports/run/verdicts.h"

namespace diptych::reports {
namespace {

Json run_json(const RunOfHistory& run) {
  return {{"folder", run.folder},
          {"report", run.report.empty() ? Json() : Json(run.report)},
          {"name", run.name},
          {"created", run.created},
          {"status", run.status},
          {"size", run.size},
          {"revision", run.revision.empty() ? Json() : Json(run.revision)},
          {"dirty", run.is_dirty},
          {"machine", run.machine},
          {"cells", run.cells}};
}

Json machine_json(const MachineOfHistory& machine) {
  return {{"name", machine.is_known() ? Json(machine.name) : Json()},
          {"fields", machine.fields},
          {"runs", machine.runs},
          {"first", machine.first},
          {"last", machine.last},
          {"differences", machine.differences}};
}

std::string_view state_of(const HistoryPoint& point) {
  return !point.state.agree             ? name_of(Verdict::invalid)
         : is_contaminated(point.state) ? name_of(Verdict::contaminated)
         : point.seconds                ? "usable"
                                        : "not timed";
}

Json point_json(const HistoryPoint& point) {
  Json out = {{"run", point.run},
              {"seconds", to_json(point.seconds)},
              {"state", state_of(point)},
              {"verdict", nullptr},
              {"detail", point.detail},
              {"base", point.base ? Json(*point.base) : Json()},
              {"ratio", to_json(point.ratio)},
              {"counts", point.counts}};
  if (point.verdict) {
    out["verdict"] = name_of(*point.verdict);
  }
  return out;
}

Json series_json(const HistorySeries& series, std::size_t most_points) {
  const std::size_t skipped = series.points.size() - std::min(series.points.size(), most_points);
  Json points = Json::array();
  for (std::size_t i = skipped; i < series.points.size(); ++i) {
    points.push_back(point_json(series.points[i]));
  }
  Json levels = Json::array();
  for (const HistoryLevel& level : series.levels) {
    levels.push_back({{"first", series.points[level.begin].run},
                      {"last", series.points[level.end - 1].run},
                      {"seconds", level.seconds}});
  }
  return {{"workload", series.workload},
          {"arm", series.arm},
          {"machine", series.machine},
          {"method_change", series.method_change.empty() ? Json() : Json(series.method_change)},
          {"current", series.is_current},
          {"points", std::move(points)},
          {"points_left_out", skipped},
          {"levels", std::move(levels)},
          {"latest",
           {{"trend", name_of(series.latest.trend)},
            {"base", series.latest.base},
            {"head", series.latest.head},
            {"ratio", series.latest.ratio},
            {"found_by", series.latest.is_level ? "level" : "comparison"}}}};
}

template <class Elements, class Write>
Json array_of(const Elements& elements, const Write& write) {
  Json out = Json::array();
  for (const auto& element : elements) {
    out.push_back(write(element));
  }
  return out;
}

}  // namespace

const char* name_of(Trend trend) {
  switch (trend) {
    case Trend::slower:
      return "slower";
    case Trend::faster:
      return "faster";
    case Trend::same:
      return "same";
    case Trend::method_changed:
      return "method changed";
    case Trend::cannot_tell:
      return "cannot tell";
    case Trend::first:
      return "first";
  }
  return "";
}

const HistoryPoint& HistorySeries::newest() const {
  const auto found = std::find_if(points.rbegin(), points.rend(),
                                  [](const HistoryPoint& point) { return point.seconds || !point.state.agree; });
  return found == points.rend() ? points.back() : *found;
}

std::size_t History::count(Trend trend) const {
  return static_cast<std::size_t>(std::count_if(series.begin(), series.end(), [&](const HistorySeries& each) {
    return each.is_current && each.latest.trend == trend;
  }));
}

std::size_t History::current() const {
  return static_cast<std::size_t>(
      std::count_if(series.begin(), series.end(), [](const HistorySeries& each) { return each.is_current; }));
}

Json history_document(const History& history, std::size_t most_points) {
  return {{"schema", history_schema_id},
          {"folder", history.folder},
          {"looked_at", history.looked_at},
          {"runs", array_of(history.runs, run_json)},
          {"machines", array_of(history.machines, machine_json)},
          {"series",
           array_of(history.series, [&](const HistorySeries& series) { return series_json(series, most_points); })},
          {"left_out", array_of(history.left_out, [](const LeftOut& left) {
             return Json{{"path", left.path}, {"reason", left.reason}};
           })}};
}

}  // namespace diptych::reports
