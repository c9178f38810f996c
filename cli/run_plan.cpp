#include "cli/run_plan.h"

#include <ctime>
#include <regex>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/names.h"
#include "cli/own_arms.h"
#include "framework/core/error.h"
#include "framework/core/isa.h"
#include "framework/core/parallel.h"
#include "framework/kernels/gemm.h"
#include "profiler/machine/fingerprint.h"
#include "reports/analysis/analyse.h"
#include "reports/run/fingerprint.h"
#include "reports/run/json_access.h"
#include "reports/run/schema.h"
#include "reports/text/text.h"
#include "workloads/harness/pinning.h"

namespace diptych::cli {
namespace {

using nlohmann::json;

/// The names that contain a match of the regular expression. Throws Error if it is invalid or matches nothing.
std::vector<std::string> filtered(std::vector<std::string> names, const std::string& filter) {
  try {
    const std::regex expression(filter);
    std::erase_if(names, [&](const std::string& name) { return !std::regex_search(name, expression); });
  } catch (const std::regex_error&) {
    throw Error(fmt::format("--filter: '{}' is no regular expression (ECMAScript)", reports::printable(filter)));
  }
  if (names.empty()) {
    throw Error(
        fmt::format("--filter: '{}' matches no workload; `diptych list` shows them", reports::printable(filter)));
  }
  return names;
}

/// What to use instead of a flag of Google Benchmark that would change how much is measured, or ask for a report that
/// isn't made here; empty for flags that a run accepts.
std::string instead_of(const std::string& flag) {
  constexpr const char* kSizes = "how much is measured is fixed by --quick, --standard, --gate and --certify";
  constexpr const char* kExport = "`diptych report RUN --format google-benchmark` writes Google Benchmark's JSON";
  static const std::vector<std::pair<const char*, const char*>> refused = {
      {"--benchmark_repetitions", kSizes},
      {"--benchmark_min_time", kSizes},
      {"--benchmark_min_warmup_time", kSizes},
      {"--benchmark_enable_random_interleaving", "arms are interleaved in random order by themselves"},
      {"--benchmark_out", kExport},
      {"--benchmark_format", kExport},
      {"--benchmark_report_aggregates_only", kExport},
      {"--benchmark_display_aggregates_only", kExport},
      {"--benchmark_list_tests", "`diptych list` shows the workloads"}};
  for (const auto& [name, instead] : refused) {
    if (flag.starts_with(name)) {  // also --benchmark_out_format
      return instead;
    }
  }
  return "";
}

std::vector<std::string> checked(const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    const std::string shown = reports::printable(flag);
    if (!flag.starts_with("--benchmark_") || shown != flag) {
      throw Error(fmt::format("'{}' behind -- is no flag of Google Benchmark's that a run can take", shown));
    }
    if (const std::string instead = instead_of(flag); !instead.empty()) {
      throw Error(fmt::format("'{}' behind -- is not taken: {}", shown, instead));
    }
  }
  return flags;
}

std::vector<std::string> chosen_workloads(const RunOptions& options) {
  const bool all = options.workloads.empty() && !options.filter.empty();  // a filter alone selects from all
  return filtered(all ? workloads::names_of_suite("all") : resolve_workloads(options.workloads), options.filter);
}

/// In the order of metric_names(), each once.
std::vector<std::string> chosen_metrics(const RunOptions& options) {
  std::vector<std::string> metrics = workloads::metric_names();
  std::erase_if(metrics, [&](const std::string& metric) {
    return std::find(options.metrics.begin(), options.metrics.end(), metric) == options.metrics.end();
  });
  return metrics;
}

std::string program_of(const json& environment) {
  return reports::text(reports::member(environment, "build"), "sha256");
}

}  // namespace

json engine_facts() {
  return {{"blas", kernels::blas_description()},
          {"gemm", kernels::kGemmNames[static_cast<std::size_t>(kernels::active_gemm())]},
          {"isa", kIsaNames[static_cast<std::size_t>(active_isa())]}};
}

json present_environment() {
  json environment = profiler::environment_fingerprint();
  environment["engine"] = engine_facts();
  return environment;
}

json new_run(const workloads::RunPlan& plan, const std::string& name, const std::vector<std::string>& command,
             const json& environment) {
  json run = {{"schema", reports::schema_id},
              {"name", name},
              {"created", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
              {"status", "partial"},
              {"command", command},
              {"size", {{"name", plan.size.name}, {"processes", plan.size.processes}, {"rounds", plan.size.rounds}}},
              {"seed", plan.seed},
              {"threads", plan.threads},
              {"pinned", plan.pinned.empty() ? json() : json(plan.pinned)},
              {"plan", workloads::to_json(plan)},
              {"numerics", "exact"},
              {"environment", environment},
              {"cells", json::array()}};
  if (plan.injection.any()) {
    run["injected"] = {
        {"time", plan.injection.time}, {"instructions", plan.injection.instructions}, {"arms", plan.injection.arms}};
  }
  return run;
}

void set_cells(json& run, const workloads::RunPlan& plan, json cells, const std::string& status) {
  run["cells"] = std::move(cells);
  run["status"] = status;
  for (json& cell : run["cells"]) {
    cell["reproduce"] = workloads::reproduce_command(plan, cell["workload"].get<std::string>());
  }
  reports::analyse(run);
}

std::vector<int> cpus_for(int threads) {
  std::vector<int> allowed = workloads::allowed_cpus();
  const auto most = std::min<std::size_t>(allowed.size(), kMostThreads);
  if (threads < 1 || static_cast<std::size_t>(threads) > most) {
    throw Error(fmt::format("--threads {}: this process may use {} CPU{} ({}); say a number from 1 to {}", threads,
                            allowed.size(), allowed.size() == 1 ? "" : "s", fmt::join(allowed, ","), most));
  }
  return allowed;
}

namespace {

/// The threads, and the CPUs that processes are bound to.
void plan_threads(workloads::RunPlan& plan, const RunOptions& options) {
  const std::vector<int> allowed = cpus_for(options.threads);
  const auto threads = static_cast<std::size_t>(options.threads);
  plan.threads = options.threads;
  if (!options.pin.empty()) {
    plan.pinned = workloads::cpus_to_pin(options.pin, allowed);
  } else if (threads > 1) {
    plan.pinned.assign(allowed.end() - options.threads, allowed.end());
  }
  if (!plan.pinned.empty() && plan.pinned.size() < threads) {
    throw Error(fmt::format("--pin {}: {} threads need as many CPUs; name {}, or leave --pin out", options.pin, threads,
                            threads));
  }
  const int others = workloads::threads_of_other_arms(plan.arms, 2);
  if (others == 1 && threads == 1) {
    throw Error("the arm +threads needs several threads: say --threads 2, or as many as `diptych doctor` finds useful");
  }
}

}  // namespace

workloads::RunPlan plan_from(const RunOptions& options) {
  workloads::RunPlan plan;
  plan.external_arms = add_own_arms(options.own_arms);
  plan.workloads = chosen_workloads(options);
  plan.arms = resolve_arms(options.arms, options.threads);
  plan.default_arms = options.arms.empty() && plan.external_arms.empty();
  for (const auto& [name, command] : plan.external_arms) {
    if (std::find(plan.arms.begin(), plan.arms.end(), name) != plan.arms.end()) {
      continue;
    }
    if (!options.arms.empty()) {
      throw Error(fmt::format("--arm {}=...: --arms leaves it out; add it there", name));
    }
    plan.arms.push_back(name);
  }
  plan.verb = options.ladder ? "ladder" : "run";
  plan.shuffle_order = options.shuffle_order;
  plan.seed = options.seed;
  plan.layout = options.layout;
  plan.benchmark_options = checked(options.benchmark_options);
  plan.metrics = chosen_metrics(options);
  plan.instructions_timeout = options.instructions_timeout;
  plan.veto_losses = options.veto_losses;
  if (plan.veto_losses && plan.measures("instructions")) {
    throw Error(
        "--veto-losses decides by time, anew in each run; counted instructions must not depend on it: leave out "
        "one of the two");
  }
  plan_threads(plan, options);
  if (!options.gemm.empty()) {
    kernels::set_gemm(
        kernels::gemm_named(options.gemm));  // for the checks that this process makes, and the fingerprint
  }
  plan.gemm = kernels::kGemmNames[static_cast<std::size_t>(kernels::active_gemm())];
  for (const workloads::RunSize& size : workloads::run_sizes()) {
    if (size.name == options.size) {
      plan.size = size;
    }
  }
  plan.injection = {options.inject_time, options.inject_instructions, {}};
  for (const std::string& arm : options.inject_arms) {
    plan.injection.arms.push_back(resolve_arm(arm).name);
  }
  refuse_external_arms(plan.injection.arms, "--inject-arm");
  if (std::all_of(plan.arms.begin(), plan.arms.end(),
                  [](const std::string& name) { return workloads::find_arm(name)->is_external(); })) {
    throw Error("arms of other frameworks alone have nothing to be checked against: add eager or graph to --arms");
  }
  return plan;
}

workloads::RunPlan plan_to_resume(const RunOptions& options, const json& run, const std::filesystem::path& path) {
  const std::string file = reports::printable(path.string());
  workloads::RunPlan plan;
  try {
    plan = workloads::plan_of(run);
    for (const auto& [name, command] : plan.external_arms) {
      const std::string arm = name + "=" + command;
      if (std::find(options.own_arms.begin(), options.own_arms.end(), arm) == options.own_arms.end()) {
        throw Error(
            fmt::format("its arm {} is a command that stands in the file; if you know it, say it again: --arm {}",
                        reports::printable(name), reports::printable(workloads::shell_quoted(arm))));
      }
      add_own_arms({arm});
    }
    for (const std::string& name : plan.workloads) {
      resolve_workload(name);
    }
    resolve_arms(plan.arms);
  } catch (const Error& error) {
    throw Error(fmt::format("can't continue {}: {}", file, error.what()));
  }

  const auto refuse = [&](const std::string& option, const auto& typed, const auto& planned) {
    if (options.given.contains(option) && typed != planned) {
      throw Error(fmt::format("--resume continues a run as it was planned; {} contradicts {} (planned: {})",
                              option == "workload" ? "the workload" : "--" + option, file,
                              reports::printable(json(planned).dump())));
    }
  };
  // Options that weren't typed have their defaults here, and aren't compared.
  RunOptions completed = options;
  if (!options.given.contains("threads")) {
    completed.threads = plan.threads;  // the arms depend on it
  }
  const workloads::RunPlan typed = plan_from(completed);
  plan.instructions_timeout = typed.instructions_timeout;  // not part of what is measured
  refuse("size", typed.size.name, plan.size.name);
  refuse("seed", typed.seed, plan.seed);
  refuse("layout", typed.layout, plan.layout);
  refuse("arms", typed.arms, plan.arms);
  refuse("workload", typed.workloads, plan.workloads);
  refuse("filter", typed.workloads, plan.workloads);
  refuse("metric", typed.metrics, plan.metrics);
  refuse("pin", typed.pinned, plan.pinned);
  refuse("threads", typed.threads, plan.threads);
  refuse("gemm", typed.gemm, plan.gemm);
  refuse("veto-losses", typed.veto_losses, plan.veto_losses);
  refuse("inject-time", typed.injection.time, plan.injection.time);
  refuse("inject-instructions", typed.injection.instructions, plan.injection.instructions);
  refuse("inject-arm", typed.injection.arms, plan.injection.arms);
  if (!typed.benchmark_options.empty() && typed.benchmark_options != plan.benchmark_options) {
    throw Error(fmt::format("--resume continues a run as it was planned; what stands behind -- contradicts {}", file));
  }
  if (options.given.contains("out")) {
    throw Error("--resume writes into the run's own folder: leave --out out");
  }

  const json now = present_environment();
  const json& then = reports::member(run, "environment");
  const bool same = reports::same_program(reports::member(then, "build"), reports::member(now, "build"));
  if (!program_of(then).empty() && !program_of(now).empty() && !same) {
    throw Error(
        fmt::format("{} was measured by another build (SHA-256 {:.12}, this one is {:.12}): its processes would "
                    "not be of one kind; measure it again",
                    file, reports::printable(program_of(then)), program_of(now)));
  }
  const reports::MachineComparison machines = reports::compare_machines(then, now);
  if (machines.same == reports::SameMachine::no) {
    throw Error(fmt::format("{} was measured on another machine ({}); measure it again", file,
                            reports::printable(machines.differences.front())));
  }
  return plan;
}

}  // namespace diptych::cli
