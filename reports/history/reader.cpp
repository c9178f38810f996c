#include "reports/history/reader.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "framework/core/error.h"
#include "framework/runtime/exact_metrics.h"
#include "reports/run/fingerprint.h"
#include "reports/run/run.h"

namespace diptych::reports {
namespace {

void append_key(std::string& key, const Method& method) {
  for (const MethodField& field : method) {
    key += field.name + '\0' + field.value + '\0';
  }
  key += '\1';
}

void describe_run(RunOfHistory& about, const Run& run) {
  about.name = run.name();
  about.created = run.created();
  about.status = run.status();
  about.size = run.size().name();
  const MeasuringEnvironment environment = run.environment();
  about.revision = environment.revision();
  about.is_dirty = environment.is_dirty();
}

/// The arms' times, by workload and arm; of equal names the first.
std::map<std::pair<std::string, std::string>, std::optional<Estimate>> times_of(const Run& run) {
  std::map<std::pair<std::string, std::string>, std::optional<Estimate>> times;
  for (const Cell cell : run.cells()) {
    for (const Arm arm : cell.arms()) {
      times.try_emplace({cell.workload(), arm.name()}, arm.seconds());
    }
  }
  return times;
}

KeptFigure kept_figure(const Subject& subject, const std::optional<Estimate>& seconds) {
  KeptFigure figure;
  figure.seconds = seconds && seconds->value > 0 ? seconds : std::nullopt;
  figure.log_seconds = subject.log_seconds;
  for (const runtime::ExactMetric& metric : runtime::exact_metrics()) {
    figure.exact.push_back(figure_of(subject.exact, metric.name));
  }
  figure.counted = subject.counted;
  figure.instructions = subject.instructions;
  figure.instruction_set = subject.instruction_set;
  figure.state = subject.state;
  return figure;
}

}  // namespace

std::size_t HistoryReader::cell_of(const Subject& subject) {
  const auto [place, is_new] = cell_index_.try_emplace({subject.workload, subject.arm}, kept_.cells.size());
  if (is_new) {
    kept_.cells.push_back({subject.workload, subject.arm});
  }
  return place->second;
}

std::size_t HistoryReader::method_like(const Method& of_run, const Method& of_arm) {
  std::string key;
  append_key(key, of_run);
  append_key(key, of_arm);
  const auto [place, is_new] = method_index_.try_emplace(std::move(key), kept_.methods.size());
  if (is_new) {
    kept_.methods.push_back({of_run, of_arm});
  }
  return place->second;
}

void HistoryReader::add(RunOfHistory about, const nlohmann::json& json) {
  const Run run(json);
  if (!run.injected().is_null()) {
    throw Error("its times were made longer on purpose (`injected`), to test a gate: no part of a history");
  }
  const Side side = read_side(json);
  KeptRun kept;
  describe_run(about, run);
  kept.machine_fields = machine_fields(run.environment());
  const auto times = times_of(run);
  std::set<std::size_t> seen;
  for (const Subject& subject : side.subjects) {
    KeptFigure figure = kept_figure(subject, times.at({subject.workload, subject.arm}));
    figure.cell = cell_of(subject);
    figure.method = method_like(side.method, subject.method);
    if (seen.insert(figure.cell).second) {  // a name that stands twice in a run would be compared with itself
      kept.figures.push_back(std::move(figure));
    }
  }
  about.cells = kept.figures.size();
  kept.about = std::move(about);
  kept_.runs.push_back(std::move(kept));
}

History HistoryReader::finish() && { return judge_runs(std::move(kept_)); }

}  // namespace diptych::reports
