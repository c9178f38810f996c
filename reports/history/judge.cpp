// From runs in any order to series of judged points.

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "framework/runtime/exact_metrics.h"
#include "reports/analysis/change_points.h"
#include "reports/gate/compare.h"
#include "reports/gate/documents.h"
#include "reports/history/kept.h"
#include "reports/history/latest.h"
#include "reports/run/fingerprint.h"
#include "reports/run/run.h"
#include "reports/statistics/welch.h"
#include "reports/text/format.h"

namespace diptych::reports {
namespace {

constexpr std::size_t kMostPointsOfLevels = 1000;  // the newest: finding levels takes the square of their number
constexpr double kClockNoise = 0.005;

std::string machine_name(std::size_t index) {
  return index < 26 ? std::string(1, static_cast<char>('A' + index)) : fmt::format("M{}", index + 1);
}

struct FigurePlace {
  std::size_t run = 0, figure = 0;
};

/// What a series needs while it grows.
struct Growing {
  std::size_t method = 0;
  std::optional<FigurePlace> usable, decided,
      counted;                 // newest points: any that is usable; of no quick run; that agree
  std::vector<double> errors;  // of usable points
};

class HistoryOfRuns {
 public:
  explicit HistoryOfRuns(KeptRuns kept) : kept_(std::move(kept)) {}

  History run() {
    std::stable_sort(kept_.runs.begin(), kept_.runs.end(), [](const KeptRun& a, const KeptRun& b) {
      return std::tie(a.about.created, a.about.folder) < std::tie(b.about.created, b.about.folder);
    });
    for (std::size_t run = 0; run < kept_.runs.size(); ++run) {
      find_machine(run);
      add_points(run);
    }
    for (std::size_t i = 0; i < history_.series.size(); ++i) {
      find_levels(history_.series[i], growing_[i].errors);
      history_.series[i].latest = latest_change(history_.series[i]);
    }
    for (KeptRun& run : kept_.runs) {
      history_.runs.push_back(std::move(run.about));
    }
    sort_series(history_.series);
    return std::move(history_);
  }

 private:
  /// Indices of points and bases of one comparison: they share the base's run.
  struct Batch {
    std::vector<std::size_t> series;
    std::vector<FigurePlace> bases, heads;
  };

  void find_machine(std::size_t index) {
    KeptRun& run = kept_.runs[index];
    std::vector<MachineOfHistory>& machines = history_.machines;
    const bool is_known = compare_machines(run.machine_fields, run.machine_fields).same == SameMachine::yes;
    const auto found = std::find_if(machines.begin(), machines.end(), [&](const MachineOfHistory& machine) {
      return is_known
                 ? machine.is_known() && compare_machines(machine.fields, run.machine_fields).same == SameMachine::yes
                 : !machine.is_known();
    });
    run.about.machine = static_cast<std::size_t>(found - machines.begin());
    if (found == machines.end()) {
      MachineOfHistory machine;
      machine.name = is_known ? machine_name(machines.size()) : "";
      machine.model = MeasuringEnvironment(run.machine_fields).cpu_model();
      machine.fields = run.machine_fields;
      machine.first = index;
      machine.differences = machines.empty()
                                ? std::vector<std::string>()
                                : compare_machines(machines.front().fields, run.machine_fields).differences;
      machines.push_back(std::move(machine));
    }
    MachineOfHistory& machine = machines[run.about.machine];
    machine.last = index;
    ++machine.runs;
  }

  std::vector<MethodChange> changes(std::size_t base, std::size_t head) const {
    if (base == head) {
      return {};
    }
    const KeptMethod& a = kept_.methods[base];
    const KeptMethod& b = kept_.methods[head];
    std::vector<MethodChange> out = method_changes(a.of_run, b.of_run, true);
    const std::vector<MethodChange> of_arm = method_changes(a.of_arm, b.of_arm, true);
    out.insert(out.end(), of_arm.begin(), of_arm.end());
    return out;
  }

  /// The series that the figure continues, made if there is none; `before`: of a new one, what the cell had last.
  std::size_t series_for(const KeptFigure& figure, std::size_t machine, std::optional<std::size_t>& before) {
    std::vector<std::size_t>& of_cell = by_cell_[{figure.cell, machine}];  // the newest last
    const auto same = std::find_if(of_cell.rbegin(), of_cell.rend(), [&](std::size_t series) {
      return changes(growing_[series].method, figure.method).empty();
    });
    if (same != of_cell.rend()) {
      const std::size_t series = *same;
      std::rotate(std::prev(same.base()), same.base(), of_cell.end());
      growing_[series].method = figure.method;
      return series;
    }
    HistorySeries series;
    series.workload = kept_.cells[figure.cell].workload;
    series.arm = kept_.cells[figure.cell].arm;
    series.machine = machine;
    if (!of_cell.empty()) {
      before = of_cell.back();
      series.method_change = changes_text(changes(growing_[*before].method, figure.method), Tier::time);
    }
    history_.series.push_back(std::move(series));
    growing_.push_back({figure.method});
    of_cell.push_back(growing_.size() - 1);
    return growing_.size() - 1;
  }

  static std::optional<FigurePlace> base_in(const Growing& growing, const KeptFigure& head) {
    if (!head.seconds) {
      return growing.counted;
    }
    return !head.state.quick && growing.decided ? growing.decided : growing.usable;
  }

  void add_points(std::size_t run) {
    std::map<std::pair<std::size_t, bool>, Batch> batches;  // by the base's run, and whether times are compared
    const KeptRun& kept = kept_.runs[run];
    for (std::size_t i = 0; i < kept.figures.size(); ++i) {
      const KeptFigure& figure = kept.figures[i];
      std::optional<std::size_t> before;
      const std::size_t series = series_for(figure, kept.about.machine, before);
      const std::optional<FigurePlace> base = base_in(growing_[before.value_or(series)], figure);
      HistoryPoint point;
      point.run = run;
      point.seconds = figure.seconds;
      point.state = figure.state;
      point.verdict = !figure.state.agree             ? std::optional(Verdict::invalid)
                      : is_contaminated(figure.state) ? std::optional(Verdict::contaminated)
                                                      : std::nullopt;
      point.detail = figure.state.agree ? "" : figure.state.disagreement;
      if (base) {
        point.base = base->run;
        Batch& batch = batches[{base->run, figure.seconds.has_value()}];
        batch.series.push_back(series);
        batch.bases.push_back(*base);
        batch.heads.push_back({run, i});
      }
      mark_current(series, figure.cell, kept.about.machine);
      history_.series[series].points.push_back(std::move(point));
    }
    for (const auto& [key, batch] : batches) {
      judge(batch, key.second);
    }
    for (std::size_t i = 0; i < kept.figures.size(); ++i) {
      keep_as_base({run, i});
    }
  }

  void mark_current(std::size_t series, std::size_t cell, std::size_t machine) {
    for (const std::size_t other : by_cell_[{cell, machine}]) {
      history_.series[other].is_current = other == series;
    }
  }

  /// After all figures of a run are judged, so that none is judged against its own run.
  void keep_as_base(FigurePlace place) {
    const KeptFigure& figure = figure_at(place);
    const std::size_t series = by_cell_[{figure.cell, kept_.runs[place.run].about.machine}].back();
    Growing& growing = growing_[series];
    if (figure.state.agree) {
      growing.counted = place;
    }
    if (!history_.series[series].points.back().is_usable()) {
      return;
    }
    growing.usable = place;
    if (!figure.state.quick) {
      growing.decided = place;
    }
    if (const auto level = paired_effect(figure.log_seconds)) {  // the mean of the logs, as of any one sample
      growing.errors.push_back(level->standard_error);
    }
  }

  const KeptFigure& figure_at(FigurePlace place) const { return kept_.runs[place.run].figures[place.figure]; }

  Subject subject_of(const KeptFigure& figure) const {
    Subject subject;
    subject.workload = kept_.cells[figure.cell].workload;
    subject.arm = kept_.cells[figure.cell].arm;
    subject.log_seconds = figure.log_seconds;
    std::size_t i = 0;
    for (const runtime::ExactMetric& metric : runtime::exact_metrics()) {
      subject.exact[metric.name] = figure.exact[i++];
    }
    subject.counted = figure.counted;
    subject.instructions = figure.instructions;
    subject.instruction_set = figure.instruction_set;
    subject.state = figure.state;
    subject.method = kept_.methods[figure.method].of_arm;
    return subject;
  }

  Side side_of(const std::vector<FigurePlace>& places) const {
    Side side;
    side.format = "diptych";
    side.environment = kept_.runs[places.front().run].machine_fields;
    side.method = kept_.methods[figure_at(places.front()).method].of_run;
    side.about = Json::object();
    for (const FigurePlace place : places) {
      side.subjects.push_back(subject_of(figure_at(place)));
    }
    return side;
  }

  void judge(const Batch& batch, bool has_times) {
    CompareOptions options;
    options.tiers = {Tier::exact, Tier::instructions};
    if (has_times) {
      options.tiers.insert(Tier::time);
    }
    const Json comparison = compare_sides(side_of(batch.bases), side_of(batch.heads), options);
    std::map<std::pair<std::string, std::string>, HistoryPoint*> points;
    for (const std::size_t series : batch.series) {
      HistorySeries& of = history_.series[series];
      points[{of.workload, of.arm}] = &of.points.back();
    }
    for (const ComparisonRow row : ComparisonDocument(comparison).rows()) {
      if (const auto point = points.find({row.workload(), row.arm()}); point != points.end()) {
        take(row, *point->second);
      }
    }
  }

  static std::string count_text(const ComparisonRow& row) {
    const auto text = [&](const std::optional<double>& value) {
      return !value ? "-" : row.unit() == "bytes" ? format_bytes(*value) : format_count(*value);
    };
    return fmt::format("{} {} -> {}", row.metric(), text(row.base()), text(row.head()));
  }

  static void take(const ComparisonRow& row, HistoryPoint& point) {
    const std::optional<Verdict> verdict = row.verdict();
    if (row.is_time()) {
      point.verdict = verdict;
      point.detail = row.detail();
      point.ratio = row.ratio();
    } else if (verdict == Verdict::regressed || verdict == Verdict::improved || verdict == Verdict::method_changed) {
      point.counts.push_back(count_text(row));
      point.counts_are_worse = point.counts_are_worse || verdict == Verdict::regressed;
    }
  }

  void find_levels(HistorySeries& series, const std::vector<double>& errors) const {
    std::vector<std::size_t> usable;
    for (std::size_t i = 0; i < series.points.size(); ++i) {
      if (series.points[i].is_usable()) {
        usable.push_back(i);
      }
    }
    if (usable.size() > kMostPointsOfLevels) {
      usable.erase(usable.begin(), usable.end() - static_cast<std::ptrdiff_t>(kMostPointsOfLevels));
    }
    if (usable.size() < 2 * kShortestLevel || !history_.machines[series.machine].is_known()) {
      return;
    }
    std::vector<double> logs;
    for (const std::size_t point : usable) {
      logs.push_back(std::log(series.points[point].seconds->value));
    }
    // Six steps say little about the noise: times of runs vary at least as much as their processes make them.
    const double noise = errors.empty() ? kClockNoise : std::max(kClockNoise, median(errors));
    for (const Level& level : levels_of(logs, kShortestLevel, noise)) {
      if (!series.levels.empty()) {
        series.levels.back().end = usable[level.begin];
      }
      series.levels.push_back({usable[level.begin], series.points.size(), std::exp(level.value)});
    }
  }

  KeptRuns kept_;
  History history_;
  std::vector<Growing> growing_;                                                     // beside history_.series
  std::map<std::pair<std::size_t, std::size_t>, std::vector<std::size_t>> by_cell_;  // cell and machine -> series
};

}  // namespace

History judge_runs(KeptRuns kept) { return HistoryOfRuns(std::move(kept)).run(); }

}  // namespace diptych::reports
