#include "workloads/harness/worker_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/io/json_text.h"

namespace diptych::workloads {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Injection, time, instructions, arms)

namespace {

/// Calls `each` with the name and the value of every member of the document, which has no levels.
template <class Plan, class Each>
void for_each_member(Plan& plan, const Each& each) {
  each("workloads", plan.workloads);
  each("arms", plan.arms);
  each("external_arms", plan.external_arms);
  each("without", plan.without);
  each("seed", plan.settings.seed);
  each("process_seed", plan.settings.process_seed);
  each("layout_seed", plan.settings.layout_seed);
  each("rounds", plan.settings.rounds);
  each("block_seconds", plan.settings.block_seconds);
  each("first_call_check", plan.first_call_check);
  each("vetoed", plan.vetoed);
  each("pinned", plan.pinned);
  each("gemm", plan.gemm);
  each("threads", plan.settings.threads);
  each("veto_losses", plan.settings.veto_losses);
  each("injection", plan.settings.injection);
  each("takes_turns", plan.takes_turns);
  each("is_first", plan.is_first);
  each("benchmark_options", plan.benchmark_options);
  each("counts_instructions", plan.counts_instructions);
  each("extra_instructions", plan.extra_instructions);
}

/// The plan as flags, for programs from before the document. Later settings can't be passed to them.
std::vector<std::string> flags_of(const WorkerPlan& plan) {
  std::vector<std::string> flags;
  const auto option = [&](const char* name, const std::string& value) {
    flags.emplace_back(name);
    flags.push_back(value);
  };
  if (plan.counts_instructions) {
    flags.emplace_back("--count-instructions");
  }
  for (const std::string& workload : plan.workloads) {
    option("--workloads", workload);
  }
  option("--arms", fmt::format("{}", fmt::join(plan.arms, ",")));
  option("--seed", std::to_string(plan.settings.seed));
  if (plan.counts_instructions) {
    for (const auto& [arm, instructions] : plan.extra_instructions) {
      option("--extra-instructions", fmt::format("{}={}", arm, instructions));
    }
    return flags;
  }
  option("--process-seed", std::to_string(plan.settings.process_seed));
  option("--rounds", std::to_string(plan.settings.rounds));
  option("--block-seconds", fmt::format("{}", plan.settings.block_seconds));
  for (const std::string& workload : plan.first_call_check) {
    option("--first-call-check", workload);
  }
  for (const std::string& failed : plan.without) {
    option("--without", failed);
  }
  for (const auto& [name, command] : plan.external_arms) {
    option("--arm", fmt::format("{}={}", name, command));
  }
  if (!plan.pinned.empty()) {
    option("--pin", fmt::format("{}", fmt::join(plan.pinned, ",")));
  }
  if (plan.settings.injection.time > 0) {
    option("--inject-time", fmt::format("{}", plan.settings.injection.time));
    if (!plan.settings.injection.arms.empty()) {
      option("--inject-arm", fmt::format("{}", fmt::join(plan.settings.injection.arms, ",")));
    }
  }
  if (plan.takes_turns) {
    option("--turns", plan.is_first ? "first" : "second");
  }
  if (!plan.benchmark_options.empty()) {
    flags.emplace_back("--");
    flags.insert(flags.end(), plan.benchmark_options.begin(), plan.benchmark_options.end());
  }
  return flags;
}

}  // namespace

std::vector<std::string> worker_arguments(const WorkerPlan& plan, int protocol) {
  if (protocol < kThreadsProtocol && plan.settings.threads > 1) {
    throw Error(fmt::format("a program that is to be measured on {} threads is from before the engine had them",
                            plan.settings.threads));
  }
  if (protocol < kDocumentProtocol) {
    return flags_of(plan);
  }
  nlohmann::json document;
  for_each_member(plan, [&](const char* name, const auto& value) { document[name] = value; });
  return {"--plan", document.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)};
}

WorkerPlan worker_plan_of(const std::string& document) {
  try {
    const nlohmann::json members = io::parse_json_text(document);
    WorkerPlan plan;
    for_each_member(plan, [&](const char* name, auto& value) { value = members.value(name, value); });
    return plan;
  } catch (const nlohmann::json::exception& error) {
    throw Error(
        fmt::format("the plan of a measuring process can't be read ({}); `diptych run` writes it, to start one "
                    "by hand is for those who look for a fault",
                    error.what()));
  }
}

}  // namespace diptych::workloads
