#include "reports/gate/method.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/run/json_access.h"
#include "reports/text/format.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

void add_known(Method& method, const std::string& name, const std::string& value, Tier from, bool of_machine = false) {
  if (!value.empty()) {
    method.push_back({name, value, from, of_machine});
  }
}

std::string cpus_text(const std::vector<int>& cpus) {
  return cpus.empty() ? "no" : fmt::format("CPUs {}", fmt::join(cpus, ", "));
}

/// Files of the first version have no plan, and don't say any of it.
void add_plan(Method& method, const Plan& plan) {
  if (!plan) {
    return;
  }
  method.push_back({"matrix products", plan.gemm(), Tier::exact});
  method.push_back({"losing kernels left out", plan.veto_losses() ? "yes" : "no", Tier::exact});
  if (const auto seconds = plan.block_seconds()) {
    method.push_back({"length of a block", format_seconds(seconds), Tier::time});
  }
  method.push_back(
      {"Google Benchmark's options", fmt::format("{}", fmt::join(plan.benchmark_options(), " ")), Tier::time});
}

}  // namespace

Method method_of(const Run& run) {
  Method method;
  add_known(method, "numerics", run.numerics(), Tier::exact);
  method.push_back({"threads", format_count(run.threads().value_or(1)), Tier::exact});
  method.push_back({"pinned", cpus_text(run.pinned()), Tier::time});
  add_plan(method, run.plan());
  const MeasuringEnvironment environment = run.environment();
  add_known(method, "compiler", environment.compiler(), Tier::instructions);
  add_known(method, "build type", environment.build_type(), Tier::instructions);
  add_known(method, "sanitizers", environment.sanitizers(), Tier::instructions);
  if (environment.has_process()) {
    method.push_back({"environment variables", environment.tuning_variables(), Tier::exact});
  }
  add_known(method, "instruction set", environment.instruction_set(), Tier::instructions, true);
  add_known(method, "governor", environment.governor(), Tier::time, true);
  return method;
}

Method method_of(const Run& run, const Cell& cell, const Arm& arm) {
  Method method;
  add_known(method, "a call", cell.unit(), Tier::exact);
  add_known(method, "workload", cell.title(), Tier::exact);
  const std::string name = arm.name();
  const bool is_like_run = arm.threads() == run.threads().value_or(1);
  method.push_back({"threads of " + name, is_like_run ? "as the run" : format_count(arm.threads()), Tier::exact});
  add_known(method, "framework of " + name, arm.framework(), Tier::exact);
  const Parts<Process> processes = cell.processes();
  if (!processes.empty()) {
    // How many there are depends on the time that building a program takes, and differs from run to run.
    const bool are_recorded = processes.front().layouts().has_value();
    method.push_back({"layouts of the heap", are_recorded ? "recorded" : "not recorded", Tier::time});
  }
  return method;
}

Method method_of_benchmarks(const Json& context) {
  Method method;
  add_known(method, "Google Benchmark's build type", text(context, "library_build_type"), Tier::time);
  if (const Json& scales = member(context, "cpu_scaling_enabled"); scales.is_boolean()) {
    method.push_back({"CPU frequency scales", scales.get<bool>() ? "yes" : "no", Tier::time, true});
  }
  return method;
}

std::vector<MethodChange> method_changes(const Method& base, const Method& head, bool same_machine) {
  std::vector<MethodChange> changes;
  for (const MethodField& field : base) {
    const auto found = std::ranges::find(head, field.name, &MethodField::name);
    if (found != head.end() && found->value != field.value && (same_machine || !field.of_machine)) {
      changes.push_back({field.name, field.value, found->value, field.from});
    }
  }
  return changes;
}

std::string changes_text(const std::vector<MethodChange>& changes, Tier tier) {
  std::string out;
  for (const MethodChange& change : changes) {
    if (tier >= change.from) {
      out += fmt::format("{}{} {} -> {}", out.empty() ? "" : "; ", change.name,
                         change.base.empty() ? "none" : shorten(change.base, 60),
                         change.head.empty() ? "none" : shorten(change.head, 60));
    }
  }
  return out;
}

}  // namespace diptych::reports
