#include <algorithm>

#include <fmt/format.h>

#include "cli/composed_functions.h"
#include "cli/names.h"
#include "cli/ops_page.h"
#include "cli/suggest.h"
#include "cli/verbs.h"
#include "framework/dispatch/op.h"
#include "reports/run/run_file.h"
#include "workloads/arms/arm.h"
#include "workloads/harness/worker.h"

namespace diptych::cli {
namespace {

void print_passes() {
  fmt::print("Passes, in order (`jit` options and arms switch them off by name):\n");
  for (const passes::Pass& pass : passes::pipeline()) {
    fmt::print("  {:<18} {}\n", pass.name, pass.doc);
  }
  fmt::print("Steps of the lowering, with names of the same kind:\n");
  fmt::print("  {:<18} ops write over inputs that die, and parts of a concat to where they lie\n", passes::kInPlace);
  fmt::print("  {:<18} temporaries at fixed offsets of one arena\n", passes::kMemoryPlan);
  fmt::print("  {:<18} instructions that don't depend on one another, on several threads\n", passes::kSideBySide);
  fmt::print("  {:<18} matrices that stay the same are packed once, for products of few rows\n", passes::kPacking);
}

void print_ops() {
  std::size_t width = 0;
  for (const OpDef* op : registry()) {
    width = std::max(width, std::string_view(op->name).size());
  }
  for (const OpDef* op : registry()) {
    fmt::print("  {:<{}}  {:<14} {}\n", op->name, width, op->family_name(), op->doc);
  }
  fmt::print("\nFunctions made of ops, which are what graphs and profiles show:\n");
  for (const reports::ComposedFunction& function : reports::composed_functions()) {
    fmt::print("  {:<{}}  {} ({})\n", function.name, width, function.doc, function.ops);
  }
}

void print_json() {
  nlohmann::json names = {{"worker_protocol", workloads::kWorkerProtocol},
                          {"workloads", nlohmann::json::array()},
                          {"arms", nlohmann::json::array()}};
  for (const workloads::Workload& workload : workloads::all_workloads()) {
    names["workloads"].push_back({{"name", workload.name},
                                  {"suite", workload.suite},
                                  {"default", workload.in_default_set},
                                  {"title", workload.title}});
  }
  const std::vector<std::string> usual = resolve_arms({});
  for (const workloads::Arm& arm : workloads::all_arms()) {
    const bool is_default = std::find(usual.begin(), usual.end(), arm.name) != usual.end();
    names["arms"].push_back({{"name", arm.name}, {"default", is_default}, {"description", arm.description}});
  }
  fmt::print("{}", reports::to_text(names));
}

}  // namespace

int list(const ListOptions& options) {
  if (options.passes) {
    print_passes();
    return kSuccess;
  }
  if (options.ops) {
    options.markdown ? fmt::print("{}", reports::ops_page()) : print_ops();
    return kSuccess;
  }
  if (options.json) {
    print_json();
    return kSuccess;
  }
  const std::vector<std::string> suites = workloads::suite_names();
  if (!options.suite.empty() && std::find(suites.begin(), suites.end(), options.suite) == suites.end()) {
    throw Error(unknown("suite", options.suite, suites));
  }
  fmt::print("Workloads (`diptych run NAME`, a suite, or `all`; * in the default set: `diptych run`):\n");
  for (const workloads::Workload& workload : workloads::all_workloads()) {
    if (options.suite.empty() || workload.suite == options.suite) {
      fmt::print("{} {:<28} {}\n", workload.in_default_set ? '*' : ' ', workload.name, workload.title);
    }
  }
  fmt::print(
      "\nArms: ways to run a workload (`--arms A,B`). A rung is one of the ladder, and adds one cause to the one "
      "before:\n");
  for (const workloads::Arm& arm : workloads::all_arms()) {
    fmt::print("  {:<28} {}{}\n", arm.name, arm.description, arm.rung.empty() ? "" : " (rung " + arm.rung + ")");
  }
  fmt::print("  {:<28} every rung from eager to the last; `run` without --arms: eager, replay, graph\n", "ladder");
  fmt::print("\nOther frameworks, where they are installed (docs/arms.md; --arm NAME=COMMAND adds one):\n");
  for (const workloads::Arm* arm : workloads::external_arms()) {
    fmt::print("  {:<28} {}\n", arm->name, arm->description);
  }
  return kSuccess;
}

}  // namespace diptych::cli
