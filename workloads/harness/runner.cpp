#include "workloads/harness/runner.h"

#include <algorithm>
#include <optional>
#include <poll.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/temporary_folder.h"
#include "workloads/harness/child.h"
#include "workloads/harness/instructions.h"
#include "workloads/harness/worker.h"
#include "workloads/workload.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;

class Runner {
 public:
  Runner(const RunPlan& plan, const std::vector<std::string>& worker_command, const RunHooks& hooks, json cells)
      : plan_(plan), worker_command_(worker_command), hooks_(hooks), launches_(launches(plan)) {
    result_.cells = std::move(cells);
  }

  RunResult run() {
    const std::size_t processes = plan_.measures("time") ? launches_.size() : 1;  // counts are exact: once is enough
    for (std::size_t process = 0; process < processes && !result_.interrupted; ++process) {
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
  json* find_cell(const std::string& workload) {
    for (json& cell : result_.cells) {
      if (cell["workload"] == workload) {
        return &cell;
      }
    }
    return nullptr;
  }

  /// The workloads that this process has to measure. Those whose arms disagree are done.
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

  std::vector<std::string> worker_arguments(const Launch& launch, const std::vector<std::string>& missing) {
    std::vector<std::string> command = worker_command_;
    const auto option = [&](const char* name, const std::string& value) {
      command.emplace_back(name);
      command.push_back(value);
    };
    for (const std::string& workload : missing) {
      option("--workloads", workload);
    }
    option("--arms", fmt::format("{}", fmt::join(plan_.arms, ",")));
    option("--seed", std::to_string(plan_.seed));
    option("--process-seed", std::to_string(launch.seed));
    option("--rounds", std::to_string(plan_.measures("time") ? plan_.size.rounds : 0));
    option("--block-seconds", fmt::format("{}", plan_.size.block_seconds));
    for (const std::string& workload : missing) {
      const json* cell = find_cell(workload);
      if (cell == nullptr) {
        continue;
      }
      option("--first-call-check", workload);
      for (const json& arm : cell->value("arms", json::array())) {
        if (arm.contains("failed")) {
          option("--without", fmt::format("{}={}", workload, arm["name"].get<std::string>()));
        }
      }
    }
    for (const auto& [name, text] : plan_.external_arms) {
      option("--arm", name + "=" + text);
    }
    if (!plan_.pinned.empty()) {
      option("--pin", fmt::format("{}", fmt::join(plan_.pinned, ",")));
    }
    if (plan_.injection.time > 0) {
      option("--inject-time", fmt::format("{}", plan_.injection.time));
      if (!plan_.injection.arms.empty()) {
        option("--inject-arm", fmt::format("{}", fmt::join(plan_.injection.arms, ",")));
      }
    }
    if (hooks_.turns != nullptr) {
      option("--turns", hooks_.is_first ? "first" : "second");
    }
    if (!plan_.benchmark_options.empty()) {
      command.emplace_back("--");
      command.insert(command.end(), plan_.benchmark_options.begin(), plan_.benchmark_options.end());
    }
    return command;
  }

  bool stops() {
    result_.interrupted = result_.interrupted || (hooks_.stop != nullptr && hooks_.stop->load());
    return result_.interrupted;
  }

  void run_process(std::size_t index, const std::vector<std::string>& missing) {
    const Launch& launch = launches_[index];
    std::vector<std::string> environment = own_environment();
    environment.push_back("DIPTYCH_PADDING=" + std::string(launch.padding, 'x'));
    environment.push_back(fmt::format("{}={}", kLayoutSeedVariable, launch.layout_seed));
    // What external arms get lies in files: they go with this object, even if the process is killed.
    std::optional<TemporaryFolder> files;
    if (engine_arms().size() < plan_.arms.size()) {
      files.emplace("diptych-run");
      std::erase_if(environment, [](const std::string& variable) { return variable.starts_with("TMPDIR="); });
      environment.push_back("TMPDIR=" + files->path().string());
    }
    const int process = static_cast<int>(index);
    Child child(worker_arguments(launch, missing), environment,
                {.handed_over = hooks_.turns != nullptr ? hooks_.turns->descriptor() : -1, .as = kTurnsDescriptor});
    if (hooks_.turns != nullptr) {
      hooks_.turns->close();  // the child's alone: when it ends, the other one sees it
    }
    RunProgress progress{process + 1, plan_.size.processes, 0, missing.size(), "", ""};
    std::string line;
    bool done = false;
    for (;;) {
      if (stops()) {
        return;  // the child is ended with its object
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
    while (!child.has_ended(end)) {  // it may have closed its output and live on
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

  /// True for the last line of a worker.
  bool handle(const std::string& line, RunProgress& progress) {
    const json event = json::parse(line, nullptr, false);
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
        hooks_.progress(progress);
      }
    } else if (kind == "context") {
      result_.context = event["context"];
    } else if (kind == "cell") {
      merge(event["workload"], event["cell"]);
      if (hooks_.cell_done) {
        hooks_.cell_done(result_.cells);
      }
    } else if (kind == "error") {
      result_.problems.push_back(fmt::format("{}: {}", event.value("workload", ""), event.value("message", "")));
    }
    return kind == "done";
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

  /// A run that was continued then looks as if it never stopped.
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
    RunProgress progress{1, 1, 0, result_.cells.size(), "", "instructions"};
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
                                  .injection = plan_.injection,
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
  RunResult result_;
};

}  // namespace

RunResult run_processes(const RunPlan& plan, const std::vector<std::string>& worker_command, const RunHooks& hooks,
                        json cells) {
  return Runner(plan, worker_command, hooks, std::move(cells)).run();
}

}  // namespace diptych::workloads
