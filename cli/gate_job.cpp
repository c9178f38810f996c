#include "cli/gate_job.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <tuple>
#include <unistd.h>

#include <fmt/format.h>

#include "cli/git_build.h"
#include "cli/measurements.h"
#include "framework/core/error.h"
#include "framework/io/naming.h"
#include "reports/analysis/analyse.h"
#include "reports/gate/compare_side.h"
#include "reports/gate/documents.h"
#include "reports/run/fingerprint.h"
#include "reports/run/json_access.h"
#include "reports/run/run.h"
#include "reports/text/suggest.h"
#include "reports/text/text.h"
#include "reports/views/compare_views.h"
#include "workloads/arms/arm.h"

namespace diptych::cli {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string start(4, '\0');
  file.read(start.data(), 4);
  return (start ==
              "\x7f"
              "ELF" ||
          start.starts_with("#!")) &&
         access(path.c_str(), X_OK) == 0;
}

/// The workloads and arms of the plan that the program has; the program's defaults if the plan names none.
InterleavedSide side_of(const GateSide& side, const workloads::RunPlan& plan) {
  InterleavedSide out;
  out.program = &*side.program;
  out.plan = plan;
  if (plan.workloads.empty()) {
    out.plan.workloads = side.program->default_workloads;
  }
  if (plan.arms.empty()) {
    out.plan.arms = side.program->default_arms;
  }
  std::erase_if(out.plan.workloads, [&](const std::string& name) { return !side.program->has_workload(name); });
  // A user-defined arm (a set of passes) is in no list.
  std::erase_if(out.plan.arms, [&](const std::string& name) {
    const auto& listed = workloads::all_arms();
    const bool has_name =
        std::find(side.program->arms.begin(), side.program->arms.end(), name) != side.program->arms.end();
    return !has_name && std::any_of(listed.begin(), listed.end(), [&](const auto& arm) { return arm.name == name; });
  });
  return out;
}

/// Names that neither program knows are mistakes, not cells that vanished.
void check_names(const GateJob& job) {
  for (const std::string& name : job.plan.workloads) {
    bool known = false;
    std::vector<std::string> all;
    for (const GateSide* side : {&job.base, &job.head}) {
      if (side->program) {
        all.insert(all.end(), side->program->workloads.begin(), side->program->workloads.end());
        known = known || side->program->has_workload(name);
      }
    }
    if (!known && !all.empty()) {
      throw Error(reports::unknown("workload", name, all));
    }
  }
}

/// The part of a run file that the gate was asked for.
json selected(const GateSide& side, const std::vector<std::string>& names, const std::vector<std::string>& arms) {
  json run = side.run;
  if (!run.contains("cells")) {
    return run;
  }
  const auto keep = [](json& items, const char* key, const std::vector<std::string>& wanted) {
    json kept = json::array();
    for (const json& item : items) {
      if (wanted.empty() || std::find(wanted.begin(), wanted.end(), item[key].get<std::string>()) != wanted.end()) {
        kept.push_back(item);
      }
    }
    items = std::move(kept);
  };
  keep(run["cells"], "workload", names);
  for (json& cell : run["cells"]) {
    keep(cell["arms"], "name", arms);
  }
  std::erase_if(run["cells"].get_ref<json::array_t&>(), [](const json& cell) { return cell["arms"].empty(); });
  io::naming(side.name, [&] { reports::analyse(run); });  // also drops what was computed from the removed arms
  return run;
}

class Gate {
 public:
  explicit Gate(GateJob job) : job_(std::move(job)) {}

  GateOutcome run() {
    check_names(job_);
    if (job_.skip_unchanged && same_build()) {
      job_.setup.unchanged = true;
      job_.setup.unchanged_note =
          "unchanged: base and head are the same binary with the same libraries; nothing was measured";
      outcome_.gate = reports::judge_gate(json::object(), nullptr, job_.config, job_.setup);
      return std::move(outcome_);
    }
    job_.setup.time_decides = job_.setup.time_decides && interleaved();
    if (!interleaved() && job_.tiers.contains(reports::Tier::time)) {
      job_.setup.time_note = "advisory: the sides were measured apart, not interleaved";
    }
    std::tie(outcome_.base, outcome_.head) = measure(workloads_to_screen(), 0, "screening");
    if (!outcome_.problem.empty()) {
      return std::move(outcome_);
    }
    const json screen = compare(outcome_.base, outcome_.head);
    json confirm;
    const std::vector<std::string> flagged = flagged_workloads(screen);
    if (!flagged.empty() && !outcome_.interrupted && (job_.base.program || job_.head.program)) {
      std::tie(outcome_.base_again, outcome_.head_again) = measure(flagged, job_.plan.size.processes, "confirming");
      if (!outcome_.problem.empty()) {
        return std::move(outcome_);
      }
      confirm = compare(outcome_.base_again, outcome_.head_again);
    }
    outcome_.gate = reports::judge_gate(screen, confirm, job_.config, job_.setup);
    return std::move(outcome_);
  }

 private:
  bool interleaved() const { return job_.base.program && job_.head.program; }

  bool same_build() const {
    if (!interleaved()) {
      return false;
    }
    const json& a = reports::member(job_.base.environment(), "build");
    const json& b = reports::member(job_.head.environment(), "build");
    const json& libraries = reports::member(a, "shared_libraries");
    return reports::same_program(a, b) && !libraries.is_null() && libraries == reports::member(b, "shared_libraries");
  }

  /// If one side is a file: the workloads of the file, and those of the program's default set that the file lacks, so
  /// that a new workload doesn't go unnoticed. Empty: the programs' default sets.
  std::vector<std::string> workloads_to_screen() const {
    std::vector<std::string> names = job_.plan.workloads;
    const GateSide& measured = job_.base.program ? job_.base : job_.head;
    const GateSide& file = job_.base.program ? job_.head : job_.base;
    if (!names.empty() || interleaved() || !measured.program) {
      return names;
    }
    names = measured.program->default_workloads;
    for (const reports::Cell cell : reports::Run(file.run).cells()) {
      const std::string name = cell.workload();
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
    return names;
  }

  std::pair<json, json> measure(const std::vector<std::string>& names, int first_launch, const std::string& stage) {
    workloads::RunPlan plan = job_.plan;
    plan.workloads = names;
    std::vector<InterleavedSide> sides;
    for (const GateSide* side : {&job_.base, &job_.head}) {
      if (side->program) {
        plan.injection = side == &job_.head ? job_.injection : workloads::Injection{};
        sides.push_back(side_of(*side, plan));
      }
    }
    std::vector<json> runs;
    if (!sides.empty()) {
      InterleavedHooks hooks;
      hooks.progress = [&](const std::string& what) { job_.progress(stage + ": " + what); };
      hooks.measured = [&](const std::vector<json>& so_far) { save(so_far, first_launch > 0 ? "-again" : ""); };
      hooks.stop = job_.stop;
      InterleavedRuns measured = measure_interleaved(sides, first_launch, hooks);
      runs = std::move(measured.runs);
      outcome_.problem = std::move(measured.problem);
    }
    outcome_.interrupted = outcome_.interrupted || (job_.stop != nullptr && job_.stop->load());
    std::pair<json, json> result;
    std::size_t next = 0;
    result.first = job_.base.program ? std::move(runs[next++]) : selected(job_.base, names, plan.arms);
    result.second = job_.head.program ? std::move(runs[next++]) : selected(job_.head, names, plan.arms);
    return result;
  }

  /// `runs`: of the sides that are programs, in their order.
  void save(const std::vector<json>& runs, const std::string& suffix) const {
    std::size_t next = 0;
    for (const auto& [side, name] : {std::pair(&job_.base, "base"), std::pair(&job_.head, "head")}) {
      if (side->program && job_.save) {
        job_.save(name + suffix, runs[next++]);
      }
    }
  }

  json compare(const json& base, const json& head) const {
    reports::CompareOptions options;
    options.interleaved = interleaved();
    options.alpha = job_.config.alpha;
    options.power = reports::gate_power;
    options.tiers = job_.tiers;
    options.delta = [this](const std::string& workload, const std::string& arm, const std::string& metric,
                           reports::Tier tier) { return job_.config.delta_of(workload, arm, metric, tier); };
    return reports::compare_sides(io::naming(job_.base.name, [&] { return reports::read_side(base); }),
                                  io::naming(job_.head.name, [&] { return reports::read_side(head); }), options);
  }

  std::vector<std::string> flagged_workloads(const json& screen) const {
    std::vector<std::string> names;
    for (const reports::ComparisonRow row : reports::ComparisonDocument(screen).rows()) {
      const std::string name = row.workload();
      if (reports::needs_confirmation(row, job_.config, job_.setup) &&
          std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
    return names;
  }

  GateJob job_;
  GateOutcome outcome_;
};

}  // namespace

const json& GateSide::environment() const {
  return program ? program->environment : reports::member(run, "environment");
}

GateSide resolve_side(const std::string& text, const std::string& build_cache,
                      const std::function<void(const std::string&)>& progress) {
  GateSide side;
  side.name = text;
  const fs::path path = text;
  if (fs::is_regular_file(path) && is_program(path)) {
    side.program = describe_program(fs::absolute(path).string());
    return side;
  }
  if (fs::exists(path / "run.json") || fs::is_regular_file(path)) {
    side.run = load_measurements(text);
    return side;
  }
  const auto revision = resolve_ref(text);
  if (!revision) {
    throw Error(fmt::format("'{}' is neither a run file, a program, nor a git ref of this repository{}",
                            reports::printable(text), fs::exists(path) ? " (it exists, but holds no run.json)" : ""));
  }
  side.name = text == *revision ? text : fmt::format("{} ({})", text, revision->substr(0, 12));
  progress(fmt::format("building {}", reports::printable(side.name)));
  const std::string program = build_revision(*revision, build_cache);
  try {
    side.program = describe_program(program);
  } catch (const Error& error) {
    throw Error(fmt::format("{} builds, but this gate can't measure it: {}; or choose a newer revision",
                            reports::printable(side.name), error.what()));
  }
  return side;
}

GateOutcome run_gate(GateJob job) { return Gate(std::move(job)).run(); }

GateOutcome run_whole_gate(GateJob job) {
  GateOutcome outcome = run_gate(std::move(job));
  if (!outcome.problem.empty()) {
    throw Error(outcome.problem);
  }
  return outcome;
}

}  // namespace diptych::cli
