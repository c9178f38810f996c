#include "workloads/harness/runner.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <poll.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/temporary_folder.h"
#include "framework/io/json_text.h"
#include "workloads/harness/instructions.h"
#include "workloads/harness/time_left.h"
#include "workloads/harness/worker.h"
#include "workloads/processes/child.h"
#include "workloads/workload.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Runner {
 public:
  Runner(const RunPlan& plan, const std::vector<std::string>& worker_command, const RunHooks& hooks, json cells)
      : plan_(plan), worker_command_(worker_command), hooks_(hooks), launches_(launches(plan)) {
    result_.cells = std::move(cells);
  }

  RunResult run() {
    for (std::size_t process = 0; process < processes() && !result_.interrupted; ++process) {
      const std::vector<std::string> missing = missing_in(launches_[process]);
      if (!missing.empty()) {
        run_process(process, missing);
      }
    }
    if (plan_.measures("instructions")) {
      count_all();
    }
    return std::move(result_);
  }

 private:
  /// Counts are exact, so one process is enough.
  std::size_t processes() const { return plan_.measures("time") ? launches_.size() : 1; }

  json* find_cell(const std::string& workload) {
    for (json& cell : result_.cells) {
      if (cell["workload"] == workload) {
        return &cell;
      }
    }
    return nullptr;
  }

  /// The workloads that this process still has to measure. Those whose arms disagree are done.
  std::vector<std::string> missing_in(const Launch& launch) {
    std::vector<std::string> missing;
    for (const std::string& workload : plan_.workloads) {
      const json* cell = find_cell(workload);
      const auto is_of_launch = [&](const json& process) { return process.value("seed", json()) == launch.seed; };
      const bool done =
          cell != nullptr && ((*cell)["validity"]["agree"] == false || !plan_.measures("time") ||
                              std::any_of((*cell)["processes"].begin(), (*cell)["processes"].end(), is_of_launch));
      if (!done) {
        missing.push_back(workload);
      }
    }
    return missing;
  }

  WorkerPlan plan_for(const Launch& launch, const std::vector<std::string>& missing) {
    WorkerPlan plan{.workloads = missing,
                    .arms = plan_.arms,
                    .external_arms = plan_.external_arms,
                    .settings = {.seed = plan_.seed,
                                 .process_seed = launch.seed,
                                 .layout_seed = launch.layout_seed,
                                 .rounds = plan_.measures("time") ? plan_.size.rounds : 0,
                                 .block_seconds = plan_.size.block_seconds,
                                 .injection = plan_.injection,
                                 .veto_losses = plan_.veto_losses,
                                 .threads = plan_.threads},
                    .pinned = plan_.pinned,
                    .gemm = plan_.gemm,
                    .takes_turns = hooks_.turns != nullptr,
                    .is_first = hooks_.is_first,
                    .benchmark_options = plan_.benchmark_options};
    for (const std::string& workload : missing) {
      const json* cell = find_cell(workload);
      if (cell == nullptr) {
        continue;
      }
      plan.first_call_check.push_back(workload);
      for (const json& arm : cell->value("arms", json::array())) {
        for (const json& kernel : arm.value("fused", json::array())) {
          if (kernel["vetoed"] == true) {
            plan.vetoed[workload].push_back(kernel["value"]);
          }
        }
        if (arm.contains("failed")) {
          plan.without.push_back(fmt::format("{}={}", workload, arm["name"].get<std::string>()));
        }
      }
    }
    return plan;
  }

  /// The cells that the processes after this one will measure.
  std::vector<std::string> cells_after(std::size_t process) {
    std::vector<std::string> cells;
    for (++process; process < processes(); ++process) {
      const std::vector<std::string> missing = missing_in(launches_[process]);
      cells.insert(cells.end(), missing.begin(), missing.end());
    }
    return cells;
  }

  bool stops() {
    result_.interrupted = result_.interrupted || (hooks_.stop != nullptr && hooks_.stop->load());
    return result_.interrupted;
  }

  void run_process(std::size_t index, const std::vector<std::string>& missing) {
    const Launch& launch = launches_[index];
    std::vector<std::string> environment = own_environment();
    environment.push_back("DIPTYCH_PADDING=" + std::string(launch.padding, 'x'));
    if (hooks_.protocol < kDocumentProtocol) {
      environment.push_back(fmt::format("{}={}", kLayoutSeedVariable, launch.layout_seed));
    }
    // The files for external arms are removed with this object, even if the process is killed.
    std::optional<TemporaryFolder> files;
    if (engine_arms().size() < plan_.arms.size()) {
      files.emplace("diptych-run");
      std::erase_if(environment, [](const std::string& variable) { return variable.starts_with("TMPDIR="); });
      environment.push_back("TMPDIR=" + files->path().string());
    }
    const int process = static_cast<int>(index);
    std::vector<std::string> command = worker_command_;
    const std::vector<std::string> arguments = worker_arguments(plan_for(launch, missing), hooks_.protocol);
    command.insert(command.end(), arguments.begin(), arguments.end());
    Child child(command, environment,
                {.handed_over = hooks_.turns != nullptr ? hooks_.turns->descriptor() : -1, .as = kTurnsDescriptor});
    if (hooks_.turns != nullptr) {
      hooks_.turns->close();  // only the child keeps it: when the child ends, the other process notices
    }
    RunProgress progress{process + 1, plan_.size.processes, 0, missing.size(), "", "", std::nullopt};
    cells_left_ = missing;
    const std::vector<std::string> later = cells_after(index);
    cells_left_.insert(cells_left_.end(), later.begin(), later.end());
    cell_began_ = std::chrono::steady_clock::now();
    std::string line;
    bool done = false;
    for (;;) {
      if (stops()) {
        return;  // the child ends with its object
      }
      const Child::Read read = child.read_line(line, 100);
      if (read == Child::Read::end) {
        break;
      }
      if (read == Child::Read::line) {
        done = handle(line, progress) || done;
      }
    }
    std::string end;
    while (!child.has_ended(end)) {  // it may have closed its output and still be running
      if (stops()) {
        return;
      }
      poll(nullptr, 0, 20);
    }
    if (!end.empty() || !done) {
      result_.problems.push_back(fmt::format("measuring process {} {}{}", process + 1,
                                             end.empty() ? "ended before it was done" : end,
                                             progress.workload.empty() ? "" : " in " + progress.workload));
    }
  }

  /// Returns true for the last line of a worker.
  bool handle(const std::string& line, RunProgress& progress) {
    const json event = io::json_or_discarded(line);
    if (!event.is_object()) {
      return false;  // something else wrote to standard output
    }
    const std::string kind = event.value("event", "");
    if (kind == "progress") {
      const std::string workload = event.value("workload", "");
      progress.cell += workload != progress.workload ? 1 : 0;
      progress.workload = workload;
      progress.what = event.value("what", "");
      if (hooks_.progress) {
        progress.seconds_left = time_left_.seconds(cells_left_, seconds_since(cell_began_));
        hooks_.progress(progress);
      }
    } else if (kind == "context") {
      result_.context = event["context"];
    } else if (kind == "cell") {
      end_cell(event["workload"]);
      merge(event["workload"], event["cell"]);
      if (hooks_.cell_done) {
        hooks_.cell_done(result_.cells);
      }
    } else if (kind == "error") {
      end_cell(event.value("workload", ""));
      result_.problems.push_back(fmt::format("{}: {}", event.value("workload", ""), event.value("message", "")));
    }
    return kind == "done";
  }

  void end_cell(const std::string& workload) {
    time_left_.add(workload, seconds_since(cell_began_));
    cell_began_ = std::chrono::steady_clock::now();
    const auto ended = std::find(cells_left_.begin(), cells_left_.end(), workload);
    cells_left_.erase(ended, ended == cells_left_.end() ? ended : ended + 1);
  }

  void merge(const std::string& name, const json& part) {
    if (json* cell = find_cell(name)) {
      for (const json& process : part["processes"]) {
        (*cell)["processes"].push_back(process);
      }
      sort_as_launched((*cell)["processes"]);
      if ((*cell)["validity"]["agree"] == true && part["validity"]["agree"] == false) {
        (*cell)["validity"] = part["validity"];
      }
      for (const json& arm : part.value("arms", json::array())) {
        const auto failure = arm.find("failed");
        for (json& mine : (*cell)["arms"]) {
          if (failure != arm.end() && mine["name"] == arm["name"] && !mine.contains("failed")) {
            mine["failed"] = *failure;
          }
        }
      }
      return;
    }
    const Workload& workload = *find_workload(name);
    json cell = part;
    cell["workload"] = workload.name;
    cell["suite"] = workload.suite;
    cell["title"] = workload.title;
    cell["unit"] = workload.unit;
    cell["comparisons"] = json::array();
    cell["rungs"] = json::array();
    result_.cells.push_back(std::move(cell));
    sort_by(result_.cells, [this](const json& each) {
      return std::find(plan_.workloads.begin(), plan_.workloads.end(), each["workload"]) - plan_.workloads.begin();
    });
  }

  /// Orders processes so that a run that was continued looks as if it never stopped.
  void sort_as_launched(json& processes) const {
    sort_by(processes, [this](const json& process) {
      const json seed = process.value("seed", json());
      return std::find_if(launches_.begin(), launches_.end(), [&](const Launch& each) { return each.seed == seed; }) -
             launches_.begin();
    });
  }

  template <typename Key>
  static void sort_by(json& array, const Key& key) {
    std::stable_sort(array.begin(), array.end(), [&](const json& a, const json& b) { return key(a) < key(b); });
  }

  /// Other frameworks' instructions aren't counted.
  std::vector<std::string> engine_arms() const {
    std::vector<std::string> names = plan_.arms;
    std::erase_if(names, [](const std::string& name) { return find_arm(name)->is_external(); });
    return names;
  }

  void count_all() {
    RunProgress progress{1, 1, 0, result_.cells.size(), "", "instructions", std::nullopt};
    for (json& cell : result_.cells) {
      if (stops()) {
        return;
      }
      ++progress.cell;
      progress.workload = cell["workload"];
      const bool counted = std::all_of(cell["arms"].begin(), cell["arms"].end(), [](const json& arm) {
        return arm.contains("instructions") || arm.contains("external");
      });
      if (cell["validity"]["agree"] == false || counted) {
        continue;
      }
      if (hooks_.progress) {
        hooks_.progress(progress);
      }
      const CountingPlan counting{.workload = progress.workload,
                                  .arms = engine_arms(),
                                  .seed = plan_.seed,
                                  .gemm = plan_.gemm,
                                  .injection = plan_.injection,
                                  .protocol = hooks_.protocol,
                                  .timeout = plan_.instructions_timeout,
                                  .stop = hooks_.stop};
      const std::map<std::string, json> counts = count_instructions(counting, worker_command_);
      for (json& arm : cell["arms"]) {
        if (const auto found = counts.find(arm["name"].get<std::string>()); found != counts.end()) {
          arm["instructions"] = found->second;
        }
      }
      if (hooks_.cell_done) {
        hooks_.cell_done(result_.cells);
      }
    }
    stops();
  }

  const RunPlan& plan_;
  const std::vector<std::string>& worker_command_;
  const RunHooks& hooks_;
  std::vector<Launch> launches_;
  TimeLeft time_left_;
  std::vector<std::string> cells_left_;  ///< of this process and of those after it, in order
  std::chrono::steady_clock::time_point cell_began_;
  RunResult result_;
};

}  // namespace

RunResult run_processes(const RunPlan& plan, const std::vector<std::string>& worker_command, const RunHooks& hooks,
                        json cells) {
  return Runner(plan, worker_command, hooks, std::move(cells)).run();
}

}  // namespace diptych::workloads
