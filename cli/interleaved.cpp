#include "cli/interleaved.h"

#include <algorithm>
#include <chrono>
#include <future>

#include <fmt/format.h>

#include "cli/run_plan.h"
#include "cli/subprocess.h"
#include "cli/terminal.h"
#include "framework/core/error.h"
#include "framework/io/json_text.h"
#include "reports/run/json_access.h"
#include "reports/text/text.h"
#include "workloads/graph_text/workload.h"
#include "workloads/harness/pinning.h"
#include "workloads/harness/worker.h"
#include "workloads/onnx/workload.h"

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
  json answer = io::json_or_discarded(result.output);
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

bool Measurable::has_workload(const std::string& name) const {
  constexpr int kReadsModels = 4;
  return has(workloads, name) || (protocol >= kReadsModels && workloads::is_onnx_name(name)) ||
         (protocol >= workloads::kGraphsProtocol && workloads::is_graph_name(name));
}

Measurable describe_program(const std::string& program) {
  Measurable result;
  result.program = program;
  result.environment = reports::member(ask(program, {"doctor", "--json"}), "fingerprint");
  const json names = ask(program, {"list", "--json"});
  // Programs that are too old to report the number speak the first protocol.
  const double protocol = reports::number(names, "worker_protocol").value_or(1);
  if (!(protocol >= 1 && protocol <= workloads::kWorkerProtocol)) {
    throw Error(fmt::format("'{}' speaks protocol {} with its measuring processes, this gate 1 to {}: {}",
                            reports::printable(program), protocol, workloads::kWorkerProtocol, kOtherAge));
  }
  result.protocol = static_cast<int>(protocol);
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
      workloads::RunPlan plan = side.plan;
      plan.layout = static_cast<int>(plans_.size());
      plans_.push_back(std::move(plan));
      result_.runs.push_back(new_run(plans_.back(), "gate", {side.program->program}, side.program->environment));
    }
  }

  InterleavedRuns run() {
    const auto begin = std::chrono::steady_clock::now();
    for (std::size_t w = 0; w < names_.size() && goes_on(); ++w) {
      for (int process = 0; process < processes_ && goes_on(); ++process) {
        const double passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        const double measured = static_cast<double>(w) * processes_ + process;
        const double planned = static_cast<double>(names_.size()) * processes_;
        // Blocks last equally long in every workload, so later processes take about as long as earlier ones.
        const std::string left =
            measured > 0 ? ", " + left_text(passed / measured * (planned - measured)) : std::string();
        hooks_.progress(
            fmt::format("{} ({}/{})  process {}/{}{}", names_[w], w + 1, names_.size(), process + 1, processes_, left));
        measure_process(names_[w], process);
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

  bool can_take_turns(const std::string& name) const {
    return sides_.size() == 2 && std::all_of(sides_.begin(), sides_.end(), [&](const InterleavedSide& side) {
             return side.program->protocol >= workloads::kTurnsProtocol && has(side.plan.workloads, name) &&
                    side.plan.measures("time");
           });
  }

  /// The side that goes first alternates from process to process.
  void measure_process(const std::string& name, int process) {
    const std::size_t first = process % 2 == 0 ? 0 : sides_.size() - 1;
    std::vector<std::size_t> order;
    for (std::size_t turn = 0; turn < sides_.size(); ++turn) {
      order.push_back(first == 0 ? turn : first - turn);
    }
    if (!can_take_turns(name)) {
      for (const std::size_t index : order) {
        if (goes_on() && has(sides_[index].plan.workloads, name)) {
          keep(index, measure(index, name, process, {}));
        }
      }
      return;
    }
    auto [one, other] = workloads::connected_sockets();
    const auto start = [&](std::size_t index, workloads::TurnSocket socket, bool is_first) {
      workloads::RunHooks hooks;
      hooks.turns = &socket;
      hooks.is_first = is_first;
      return measure(index, name, process, hooks);  // a socket that no process received is closed here
    };
    auto second = std::async(std::launch::async, start, order[1], std::move(other), false);
    workloads::RunResult result = start(order[0], std::move(one), true);
    keep(order[0], std::move(result));
    keep(order[1], second.get());
  }

  workloads::RunResult measure(std::size_t index, const std::string& name, int process, workloads::RunHooks hooks) {
    const InterleavedSide& side = sides_[index];
    workloads::RunPlan plan = plans_[index];
    if (hooks.turns != nullptr && plan.pinned.empty()) {
      // The speeds of a shared machine's CPUs can differ for seconds. Processes that take turns share a CPU, and each
      // pair uses the next one.
      const std::vector<int> cpus = workloads::allowed_cpus();
      plan.pinned = {cpus[static_cast<std::size_t>(process) / 2 % cpus.size()]};
    }
    plan.workloads = {name};
    plan.first_launch = first_launch_;
    plan.size.processes = process + 1;  // the earlier ones are in `cells_` and are not measured again
    hooks.stop = hooks_.stop;
    hooks.protocol = side.program->protocol;
    return workloads::run_processes(plan, {side.program->program, "worker"}, hooks, std::move(cells_[index]));
  }

  void keep(std::size_t index, workloads::RunResult result) {
    cells_[index] = std::move(result.cells);
    result_.interrupted = result_.interrupted || result.interrupted;
    if (!result.context.is_null()) {
      result_.runs[index]["environment"]["benchmark"] = std::move(result.context);
    }
    if (!result.problems.empty() && result_.problem.empty()) {
      result_.problem = fmt::format("{}: {}", reports::printable(sides_[index].program->program),
                                    reports::printable(result.problems.front()));
      if (cells_[index].empty()) {
        result_.problem += "; nothing of it could be measured: is it of another age than this gate?";
      }
    }
  }

  /// Each cell was measured under a separate plan, which has no order among cells.
  void fill(const char* status) {
    const auto place = [&](const json& cell) {
      return std::find(names_.begin(), names_.end(), cell["workload"].get<std::string>()) - names_.begin();
    };
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      std::stable_sort(cells_[i].begin(), cells_[i].end(),
                       [&](const json& a, const json& b) { return place(a) < place(b); });
      set_cells(result_.runs[i], plans_[i], cells_[i], status);
    }
  }

  const std::vector<InterleavedSide>& sides_;
  std::vector<workloads::RunPlan> plans_;  ///< plans of the sides, each with its own memory layouts
  int first_launch_;
  const InterleavedHooks& hooks_;
  std::vector<std::string> names_;
  int processes_ = 0;
  std::vector<json> cells_;  ///< raw, for each side
  InterleavedRuns result_;
};

}  // namespace

InterleavedRuns measure_interleaved(const std::vector<InterleavedSide>& sides, int first_launch,
                                    const InterleavedHooks& hooks) {
  return Job(sides, first_launch, hooks).run();
}

}  // namespace diptych::cli
