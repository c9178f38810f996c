#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/artifacts.h"
#include "cli/names.h"
#include "cli/run_plan.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "framework/core/parallel.h"
#include "reports/run/run_file.h"
#include "reports/text/text.h"
#include "reports/views/graph_inputs.h"

namespace diptych::cli {
namespace {

/// The seconds of one call, by the source op of each zone.
std::map<std::uint64_t, double> seconds_by_source_op(const Profile& profile, int steps) {
  std::map<std::uint64_t, double> seconds;
  for (const profiler::Trace::Zone& zone : profile.trace.zones) {
    if (zone.source_op != 0) {
      seconds[zone.source_op] += 1e-9 * static_cast<double>(zone.duration_ns()) / steps;
    }
  }
  return seconds;
}

}  // namespace

int profile(const ProfileOptions& options) {
  const workloads::Workload& workload = resolve_workload(options.workload);
  if (options.arm == "ladder" || options.arm.find(',') != std::string::npos) {
    throw Error(fmt::format("--arm {}: profile takes one arm; those of the ladder are {}",
                            reports::printable(options.arm), fmt::join(workloads::ladder_arms(), ", ")));
  }
  const workloads::Arm& arm = resolve_arm(options.arm);
  if (arm.on_threads) {
    throw Error(fmt::format("--arm {}: a profile has no arm beside it; say --arm graph --threads 2", arm.name));
  }
  const int threads = options.threads.value_or(thread_count());
  cpus_for(threads);
  refuse_external_arms({arm.name}, "a profile");
  const std::string folder = make_output_folder(options.out, fmt::format("profile-{}-{}", workload.name, arm.name));
  const UseThreads use(threads);
  workloads::ArmInstance instance(workload, arm, options.seed);
  constexpr int kWarmUp = 3;
  const Profile profile = trace_calls(instance, kWarmUp, options.steps);

  const std::string table = profiler::render(profile.table);
  fmt::print("{}, {}: {} steady calls ({} each)\n\n{}\n", reports::printable(workload.name), arm.name, options.steps,
             workload.unit, table);
  nlohmann::json ops = profiler::to_json(profile.table);
  std::string inputs;
  if (const graph::Graph* graph = compiled_graph(instance); graph != nullptr) {
    const std::vector<reports::GraphInput> all =
        reports::graph_inputs(*graph, seconds_by_source_op(profile, options.steps));
    inputs = reports::render_inputs(all);
    fmt::print("{}\n", inputs);
    ops["inputs"] = reports::to_json(all);
  }
  write_trace(profile.trace, folder + "/trace.json", compiled_graph(instance));
  reports::write_atomically(folder + "/ops.json", reports::to_text(ops));
  reports::write_atomically(folder + "/ops.txt", inputs.empty() ? table : table + "\n" + inputs);
  fmt::print("{0}/trace.json   open it at ui.perfetto.dev, or in chrome://tracing\n{0}/ops.json     the table above\n",
             reports::printable(folder));
  return kSuccess;
}

}  // namespace diptych::cli
