#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/run_plan.h"
#include "cli/suggest.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "framework/io/naming.h"
#include "reports/run/run.h"
#include "reports/run/run_file.h"
#include "reports/text/text.h"
#include "reports/views/reproduction.h"
#include "workloads/arms/arm.h"
#include "workloads/harness/plan.h"

namespace diptych::cli {
namespace {

using nlohmann::json;

/// The options with which a run of one cell would have been typed.
RunOptions options_of(const workloads::RunPlan& plan, const ReproduceOptions& asked) {
  RunOptions options;
  options.workloads = {asked.cell};
  options.arms = plan.arms;
  options.size = plan.size.name;
  options.seed = plan.seed;
  options.layout = plan.layout;
  options.out = asked.out;
  options.metrics = plan.metrics;
  options.pin = fmt::format("{}", fmt::join(plan.pinned, ","));
  options.threads = plan.threads;
  options.gemm = plan.gemm;
  options.veto_losses = plan.veto_losses;
  options.inject_time = plan.injection.time;
  options.inject_instructions = plan.injection.instructions;
  options.inject_arms = plan.injection.arms;
  options.benchmark_options = plan.benchmark_options;
  return options;
}

/// Keeps only `arm`, and eager if the run had it, which a speed-up needs.
void narrow(workloads::RunPlan& plan, const std::string& arm) {
  if (std::find(plan.arms.begin(), plan.arms.end(), arm) == plan.arms.end()) {
    throw Error(unknown("arm", arm, plan.arms));
  }
  const auto is_external = [&](const std::string& name) {
    const workloads::Arm* known = workloads::find_arm(name);
    return plan.external_arms.contains(name) || (known != nullptr && known->is_external());
  };
  const auto first = std::find_if_not(plan.arms.begin(), plan.arms.end(), is_external);
  const std::string checked_against = first != plan.arms.end() ? *first : "";
  const auto is_base = [&](const std::string& name) {
    return name == "eager" || (is_external(arm) && name == checked_against);
  };
  std::erase_if(plan.arms, [&](const std::string& name) { return name != arm && !is_base(name); });
  std::erase_if(plan.external_arms, [&](const auto& own) {
    return std::find(plan.arms.begin(), plan.arms.end(), own.first) == plan.arms.end();
  });
  plan.default_arms = false;
  plan.verb = "run";
  plan.shuffle_order = false;
}

}  // namespace

int reproduce(const ReproduceOptions& options) {
  std::filesystem::path path = options.run;
  if (std::filesystem::is_directory(path)) {
    path /= "run.json";
  }
  const json run = reports::load_run(path);
  const reports::Cell cell = io::naming(path, [&] { return reports::cell_of(run, options.cell); });
  workloads::RunPlan plan = io::naming(path, [&] { return workloads::plan_of(run); });
  if (!options.arm.empty()) {
    io::naming(path, [&] { narrow(plan, options.arm); });
  }
  const std::string command = workloads::reproduce_command(plan, options.cell);
  fmt::print("{}", reports::describe_number(run, cell, options.arm, command, present_environment()));
  if (!options.execute) {
    return kSuccess;
  }
  if (!plan.external_arms.empty()) {
    throw Error("arms of this run are commands that stand in the file; look at them, then run the line above yourself");
  }
  RunOptions again = options_of(plan, options);
  again.command = {"diptych", "reproduce", options.run, options.cell, "--run"};
  if (!options.arm.empty()) {
    again.command.insert(again.command.end(), {"--arm", options.arm});
  }
  fmt::print("\n");
  std::fflush(stdout);
  json repeated;
  const int code = cli::run(again, &repeated);
  if (const auto cells = reports::Run(repeated).cells(); !cells.empty()) {
    fmt::print("\n{}", reports::describe_repetition(cell, cells.front(), options.arm));
  }
  return code;
}

}  // namespace diptych::cli
