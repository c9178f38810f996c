#include "cli/interleaved.h"

#include <algorithm>

#include <fmt/format.h>

#include "cli/run_plan.h"
#include "cli/subprocess.h"
#include "framework/core/error.h"
#include "reports/json_access.h"
#include "reports/text.h"
#include "workloads/harness/worker.h"

namespace diptych::cli {
namespace {

using nlohmann::json;

constexpr const char* kOtherAge =
    "it is no diptych, or one of another age than this gate; measure each with its own `diptych run`, and give the "
    "gate "
    "the two run.json";

json ask(const std::string& program, const std::vector<std::string>& words) {
  std::vector<std::string> command = {program};
  command.insert(command.end(), words.begin(), words.end());
  const ProgramResult result = run_program(command);
  json answer = json::parse(result.output, nullptr, false);
  if (result.exit_code != 0 || !answer.is_object()) {
    const std::string said = last_lines(result.error, 2);
    throw Error(fmt::format("'{}' doesn't answer `{} {}` as diptych does (exit code {}{}): {}",
                            reports::printable(program), words[0], words[1], result.exit_code,
                            said.empty() ? "" : ": " + reports::shorten(reports::printable(said), 300), kOtherAge));
  }
  return answer;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Measurable describe_program(const std::string& program) {
  Measurable result;
  result.program = program;
  result.environment = reports::member(ask(program, {"doctor", "--json"}), "fingerprint");
  const json names = ask(program, {"list", "--json"});
  // Programs from before the number was said speak the first protocol.
  const double protocol = reports::number(names, "worker_protocol").value_or(1);
  if (protocol != workloads::kWorkerProtocol) {
    throw Error(fmt::format("'{}' speaks protocol {} with its measuring processes, this gate {}: {}",
                            reports::printable(program), protocol, workloads::kWorkerProtocol, kOtherAge));
  }
  for (const json& workload : reports::list(names, "workloads")) {
    result.workloads.push_back(reports::text(workload, "name"));
    if (reports::member(workload, "default") == true) {
      result.default_workloads.push_back(reports::text(workload, "name"));
    }
  }
  for (const json& arm : reports::list(names, "arms")) {
    result.arms.push_back(reports::text(arm, "name"));
    if (reports::member(arm, "default") == true) {
      result.default_arms.push_back(result.arms.back());
    }
  }
  return result;
}

namespace {

class Job {
 public:
  Job(const std::vector<InterleavedSide>& sides, int first_launch, const InterleavedHooks& hooks)
      : sides_(sides), first_launch_(first_launch), hooks_(hooks), cells_(sides.size(), json::array()) {
    for (const InterleavedSide& side : sides_) {
      processes_ = std::max(processes_, side.plan.size.processes);
      for (const std::string& name : side.plan.workloads) {
        if (!has(names_, name)) {
          names_.push_back(name);
        }
      }
      result_.runs.push_back(new_run(side.plan, "gate", {side.program->program}, side.program->environment));
    }
  }

  InterleavedRuns run() {
    for (std::size_t w = 0; w < names_.size() && goes_on(); ++w) {
      for (int process = 0; process < processes_ && goes_on(); ++process) {
        hooks_.progress(
            fmt::format("{} ({}/{})  process {}/{}", names_[w], w + 1, names_.size(), process + 1, processes_));
        for (std::size_t turn = 0; turn < sides_.size() && goes_on(); ++turn) {
          measure(process % 2 == 0 ? turn : sides_.size() - 1 - turn, names_[w], process);
        }
      }
      if (goes_on() && hooks_.measured) {
        fill("partial");
        hooks_.measured(result_.runs);
      }
    }
    fill(result_.interrupted ? "interrupted" : result_.problem.empty() ? "complete" : "partial");
    return std::move(result_);
  }

 private:
  bool goes_on() const { return !result_.interrupted && result_.problem.empty(); }

  void measure(std::size_t index, const std::string& name, int process) {
    const InterleavedSide& side = sides_[index];
    if (!has(side.plan.workloads, name)) {
      return;
    }
    workloads::RunPlan plan = side.plan;
    plan.workloads = {name};
    plan.first_launch = first_launch_;
    plan.size.processes = process + 1;  // those before are in `cells_` and are not measured again
    workloads::RunHooks hooks;
    hooks.stop = hooks_.stop;
    workloads::RunResult result =
        workloads::run_processes(plan, {side.program->program, "worker"}, hooks, std::move(cells_[index]));
    cells_[index] = std::move(result.cells);
    result_.interrupted = result.interrupted;
    if (!result.context.is_null()) {
      result_.runs[index]["environment"]["benchmark"] = std::move(result.context);
    }
    if (!result.problems.empty()) {
      result_.problem =
          fmt::format("{}: {}", reports::printable(side.program->program), reports::printable(result.problems.front()));
      if (cells_[index].empty()) {
        result_.problem += "; nothing of it could be measured: is it of another age than this gate?";
      }
    }
  }

  /// Each cell was measured under a plan of its own, which knows no order among them.
  void fill(const char* status) {
    const auto place = [&](const json& cell) {
      return std::find(names_.begin(), names_.end(), cell["workload"].get<std::string>()) - names_.begin();
    };
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      std::stable_sort(cells_[i].begin(), cells_[i].end(),
                       [&](const json& a, const json& b) { return place(a) < place(b); });
      set_cells(result_.runs[i], sides_[i].plan, cells_[i], status);
    }
  }

  const std::vector<InterleavedSide>& sides_;
  int first_launch_;
  const InterleavedHooks& hooks_;
  std::vector<std::string> names_;
  int processes_ = 0;
  std::vector<json> cells_;  ///< raw, of each side
  InterleavedRuns result_;
};

}  // namespace

InterleavedRuns measure_interleaved(const std::vector<InterleavedSide>& sides, int first_launch,
                                    const InterleavedHooks& hooks) {
  return Job(sides, first_launch, hooks).run();
}

}  // namespace diptych::cli
