#include "workloads/harness/plan.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "workloads/arms/arm.h"

namespace diptych::workloads {

using nlohmann::json;

bool RunPlan::measures(std::string_view metric) const {
  return std::find(metrics.begin(), metrics.end(), metric) != metrics.end();
}

const std::vector<std::string>& metric_names() {
  static const std::vector<std::string> names = {"time", "exact", "instructions"};
  return names;
}

std::vector<Launch> launches(const RunPlan& plan) {
  std::vector<Launch> result;
  Rng orders(plan.seed);
  Rng layouts(plan.seed ^ 0x9E3779B97F4A7C15ULL * static_cast<std::uint64_t>(plan.layout + 1));
  const auto draw = [](Rng& rng) { return rng.next_u64() >> 11U; };  // under 2^53: JSON readers keep it exact
  for (int process = 0; process < plan.first_launch + plan.size.processes; ++process) {
    const std::uint64_t seed = draw(orders);
    const std::uint64_t layout_seed = draw(layouts);
    const Launch launch{seed, layout_seed, static_cast<std::size_t>(layouts.below(4096))};
    if (process >= plan.first_launch) {
      result.push_back(launch);
    }
  }
  return result;
}

json to_json(const RunPlan& plan) {
  return {{"verb", plan.verb},
          {"workloads", plan.workloads},
          {"arms", plan.arms},
          {"default_arms", plan.default_arms},
          {"shuffle_order", plan.shuffle_order},
          {"layout", plan.layout},
          {"external_arms", plan.external_arms},
          {"metrics", plan.metrics},
          {"gemm", plan.gemm},
          {"veto_losses", plan.veto_losses},
          {"block_seconds", plan.size.block_seconds},
          {"benchmark_options", plan.benchmark_options}};
}

RunPlan plan_of(const json& run) {
  const auto stored = run.find("plan");
  if (stored == run.end() || !stored->is_object()) {
    throw Error("the run has no \"plan\": it was written before runs could be continued; measure it again");
  }
  RunPlan plan;
  plan.size = {run["size"]["name"], run["size"]["processes"], run["size"]["rounds"], (*stored)["block_seconds"]};
  plan.workloads = (*stored)["workloads"].get<std::vector<std::string>>();
  plan.arms = (*stored)["arms"].get<std::vector<std::string>>();
  plan.default_arms = (*stored)["default_arms"];
  plan.verb = (*stored)["verb"];
  plan.shuffle_order = (*stored)["shuffle_order"];
  plan.metrics = (*stored)["metrics"].get<std::vector<std::string>>();
  plan.benchmark_options = (*stored)["benchmark_options"].get<std::vector<std::string>>();
  plan.seed = run["seed"];
  plan.threads = run.value("threads", 1);
  plan.layout = stored->value("layout", 0);
  plan.gemm = stored->value("gemm", "openblas");  // there was no other before
  plan.veto_losses = stored->value("veto_losses", false);
  plan.external_arms = stored->value("external_arms", std::map<std::string, std::string>());
  if (const auto pinned = run.find("pinned"); pinned != run.end() && pinned->is_array()) {
    plan.pinned = pinned->get<std::vector<int>>();
  }
  if (const auto injected = run.find("injected"); injected != run.end() && injected->is_object()) {
    plan.injection = {(*injected)["time"], (*injected)["instructions"],
                      (*injected)["arms"].get<std::vector<std::string>>()};
  }
  return plan;
}

std::string shell_quoted(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_./:=,+-").find(c) != std::string_view::npos;
  });
  if (plain) {
    return text;
  }
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return quoted + "'";
}

namespace {

std::vector<std::string> external_arms_of(const std::vector<std::string>& names) {
  std::vector<std::string> external;
  std::copy_if(names.begin(), names.end(), std::back_inserter(external), [](const std::string& name) {
    const Arm* const arm = find_arm(name);
    return arm != nullptr && arm->is_external();
  });
  return external;
}

}  // namespace

std::string reproduce_command(const RunPlan& plan, const std::string& workload) {
  std::string command =
      fmt::format("diptych {} {} --{} --seed {}", plan.verb, shell_quoted(workload), plan.size.name, plan.seed);
  const auto flag = [&command](const char* name, const auto& values) {
    if (!values.empty()) {
      command += fmt::format(" {} {}", name, fmt::join(values, ","));
    }
  };
  for (const auto& [name, text] : plan.external_arms) {
    command += " --arm " + shell_quoted(name + "=" + text);
  }
  if (plan.shuffle_order) {
    command += " --shuffle-order";
  }
  if (plan.verb == "ladder") {
    flag("--against", external_arms_of(plan.arms));
  } else if (!plan.default_arms) {
    flag("--arms", plan.arms);
  }
  if (plan.metrics != RunPlan().metrics) {
    flag("--metric", plan.metrics);
  }
  if (plan.layout != 0) {
    command += fmt::format(" --layout {}", plan.layout);
  }
  if (plan.threads != 1) {
    command += fmt::format(" --threads {}", plan.threads);
  }
  flag("--pin", plan.pinned);
  if (plan.gemm != RunPlan().gemm) {
    command += " --gemm " + shell_quoted(plan.gemm);
  }
  if (plan.veto_losses) {
    command += " --veto-losses";
  }
  if (plan.injection.time > 0) {
    command += fmt::format(" --inject-time {}", plan.injection.time);
  }
  if (plan.injection.instructions > 0) {
    command += fmt::format(" --inject-instructions {}", plan.injection.instructions);
  }
  flag("--inject-arm", plan.injection.arms);
  return command;
}

}  // namespace diptych::workloads
