#include "cli/interleaved.h"

#include <algorithm>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "cli/subprocess.h"
#include "framework/core/error.h"
#include "reports/analyse.h"
#include "reports/json_access.h"
#include "reports/schema.h"
#include "reports/text.h"

namespace diptych::cli {
namespace {

using nlohmann::json;

json ask(const std::string& program, const std::vector<std::string>& words) {
  std::vector<std::string> command = {program};
  command.insert(command.end(), words.begin(), words.end());
  const ProgramResult result = run_program(command);
  json answer = json::parse(result.output, nullptr, false);
  if (result.exit_code != 0 || !answer.is_object()) {
    throw Error(fmt::format(
        "'{}' doesn't answer `{} {}` as diptych does: {}", reports::printable(program), words[0], words[1],
        result.error.empty() ? fmt::format("exit code {}", result.exit_code) : last_lines(result.error, 2)));
  }
  return answer;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

json run_of(const InterleavedSide& side, json cells, bool interrupted) {
  for (json& cell : cells) {
    cell["reproduce"] = workloads::reproduce_command(side.plan, cell["workload"]);
  }
  json run = {
      {"schema", reports::schema_id},
      {"name", "gate"},
      {"created", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
      {"status", interrupted ? "interrupted" : "complete"},
      {"command", {side.program->program}},
      {"size",
       {{"name", side.plan.size.name}, {"processes", side.plan.size.processes}, {"rounds", side.plan.size.rounds}}},
      {"seed", side.plan.seed},
      {"threads", 1},
      {"numerics", "exact"},
      {"environment", side.program->environment},
      {"cells", std::move(cells)}};
  reports::analyse(run);
  return run;
}

}  // namespace

Measurable describe_program(const std::string& program) {
  Measurable result;
  result.program = program;
  result.environment = reports::member(ask(program, {"doctor", "--json"}), "fingerprint");
  const json names = ask(program, {"list", "--json"});
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

std::vector<json> measure_interleaved(const std::vector<InterleavedSide>& sides, int first_launch,
                                      const std::function<void(const std::string&)>& progress,
                                      const std::atomic<bool>* stop) {
  std::vector<std::string> names;
  int processes = 0;
  for (const InterleavedSide& side : sides) {
    processes = std::max(processes, side.plan.size.processes);
    for (const std::string& name : side.plan.workloads) {
      if (!has(names, name)) {
        names.push_back(name);
      }
    }
  }
  std::vector<json> cells(sides.size(), json::array());
  bool interrupted = false;
  for (std::size_t w = 0; w < names.size() && !interrupted; ++w) {
    for (int process = 0; process < processes && !interrupted; ++process) {
      for (std::size_t turn = 0; turn < sides.size() && !interrupted; ++turn) {
        const std::size_t index = process % 2 == 0 ? turn : sides.size() - 1 - turn;
        const InterleavedSide& side = sides[index];
        if (!has(side.plan.workloads, names[w])) {
          continue;
        }
        progress(fmt::format("{} ({}/{})  process {}/{}", names[w], w + 1, names.size(), process + 1, processes));
        workloads::RunPlan plan = side.plan;
        plan.workloads = {names[w]};
        plan.first_launch = first_launch;
        plan.size.processes = process + 1;  // those before are in `cells` and are not measured again
        workloads::RunHooks hooks;
        hooks.stop = stop;
        workloads::RunResult result =
            workloads::run_processes(plan, {side.program->program, "worker"}, hooks, std::move(cells[index]));
        interrupted = result.interrupted;
        if (!result.problems.empty()) {
          throw Error(fmt::format("{}: {}", reports::printable(side.program->program), result.problems.front()));
        }
        cells[index] = std::move(result.cells);
      }
    }
  }
  // Each was measured under a plan of its own, which knows no order among them.
  const auto place = [&](const json& cell) {
    return std::find(names.begin(), names.end(), cell["workload"].get<std::string>()) - names.begin();
  };
  for (json& measured : cells) {
    std::stable_sort(measured.begin(), measured.end(),
                     [&](const json& a, const json& b) { return place(a) < place(b); });
  }
  std::vector<json> runs;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    runs.push_back(run_of(sides[i], std::move(cells[i]), interrupted));
  }
  return runs;
}

}  // namespace diptych::cli
