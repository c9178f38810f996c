#include <algorithm>
#include <iterator>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/aligned_profile.h"
#include "cli/artifacts.h"
#include "cli/external_profile.h"
#include "cli/names.h"
#include "cli/run_plan.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "framework/core/error.h"
#include "framework/core/parallel.h"
#include "reports/run/run_file.h"
#include "reports/text/text.h"
#include "reports/views/flames.h"
#include "reports/views/graph_inputs.h"
#include "reports/views/memory_picture.h"
#include "reports/views/memory_views.h"
#include "reports/views/profile_views.h"

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

/// An arm that a profile can show. `option`: where it was named.
const workloads::Arm& arm_to_profile(const std::string& name, const std::string& option) {
  const workloads::Arm& arm = resolve_arm(name);
  if (arm.on_threads) {
    throw Error(
        fmt::format("{} {}: a profile has no arm beside it; say {} graph --threads 2", option, arm.name, option));
  }
  return arm;
}

std::vector<const workloads::Arm*> arms_to_align(const std::vector<std::string>& names) {
  std::vector<const workloads::Arm*> arms;
  for (const std::string& name : names) {
    if (name == "ladder") {
      throw Error(fmt::format("--arms ladder: name the arms, the base first; those of the ladder are {}",
                              fmt::join(workloads::ladder_arms(), ", ")));
    }
    const workloads::Arm& arm = arm_to_profile(name, "--arms");
    if (std::find(arms.begin(), arms.end(), &arm) != arms.end()) {
      throw Error(fmt::format("--arms: {} stands there twice; an arm beside itself shows only noise", arm.name));
    }
    arms.push_back(&arm);
  }
  if (arms.size() < 2) {
    throw Error(fmt::format("--arms {0}: a profile of one arm has nothing beside it; say --arms {0},{1}, or --arm {0}",
                            arms.front()->name, arms.front()->name == "graph" ? "eager" : "graph"));
  }
  if (arms.front()->is_external()) {
    throw Error(
        fmt::format("--arms {0}: the first is the base, and has to be one of Diptych's own, whose ops the "
                    "others' are matched with; say --arms eager,{0}",
                    arms.front()->name));
  }
  return arms;
}

constexpr int kNoLimit = 1000;  ///< columns of a table in a file

/// What a profile of several arms shows and writes.
struct Aligned {
  std::string text;  ///< what stands above the tables
  reports::AlignedProfile profile;
  reports::AlignedProfile stacks;  ///< the same, by call stack
  std::string capability;          ///< what could be counted
  reports::TracingCost tracing;
  std::vector<reports::MemoryOfArm> watched;
  std::vector<reports::MemoryRecord> memory;
};

void print_aligned(const Aligned& aligned) {
  constexpr std::size_t kMostRows = 40;
  constexpr std::size_t kMostCounted = 10;
  fmt::print("{}\n{}\n{}{}\n{}\n{}\n", aligned.text,
             reports::render_profile(aligned.profile, {wants_colour(), terminal_width()}, kMostRows),
             reports::render_counts(aligned.profile, {wants_colour(), terminal_width()}, kMostCounted),
             aligned.capability, reports::memory_summary(aligned.memory), reports::tracing_text(aligned.tracing));
}

/// All but the traces, and a line for each.
void write_aligned(const Aligned& aligned, const workloads::Workload& workload, int steps, const std::string& folder) {
  reports::write_atomically(folder + "/ops.txt",
                            aligned.text + "\n" + reports::render_profile(aligned.profile, {false, kNoLimit}) + "\n" +
                                reports::render_counts(aligned.profile, {false, kNoLimit}) + aligned.capability + "\n" +
                                reports::tracing_text(aligned.tracing));
  reports::write_atomically(folder + "/ops.csv", reports::profile_csv(aligned.profile));
  nlohmann::json ops = reports::profile_json(aligned.profile, steps);
  ops["tracing"] = reports::tracing_json(aligned.tracing);
  reports::write_atomically(folder + "/ops.json", reports::to_text(ops));
  reports::write_atomically(folder + "/flame.svg", reports::flame_svg(reports::flame_frames(aligned.stacks)));
  reports::write_atomically(folder + "/stacks.speedscope.json",
                            reports::to_text(reports::speedscope_json(aligned.stacks, workload.name)));
  reports::write_atomically(folder + "/memory.txt", reports::memory_text(aligned.memory, {false, kNoLimit}));
  reports::write_atomically(folder + "/memory.svg", reports::memory_svg(aligned.memory));
  reports::write_atomically(folder + "/memory.json", reports::to_text(reports::memory_json(aligned.watched)));
  const std::string shown = reports::printable(folder);
  fmt::print("{0}/ops.txt, ops.csv, ops.json   the table above, every row\n", shown);
  fmt::print("{0}/flame.svg   modules and ops as flame graphs, coloured by what changes\n", shown);
  fmt::print("{0}/stacks.speedscope.json   the same for speedscope.app, every arm a profile\n", shown);
  fmt::print("{0}/memory.svg, memory.txt, memory.json   what each arm holds, and who holds it at the peak\n", shown);
}

/// Traces and collapsed stacks, and a line for each.
void write_aligned_traces(const AlignedTraces& traced, const std::vector<const workloads::Arm*>& arms,
                          const reports::AlignedProfile& stacks, const std::string& folder) {
  const std::string shown = reports::printable(folder);
  const LinkedTrace all = traced.linked_traces();
  write_trace(all.trace, folder + "/trace.json", all.options);
  fmt::print("{}/trace.json   all arms on one time axis, arrows from op to kernel: open it at ui.perfetto.dev\n",
             shown);
  for (std::size_t arm = 0; arm < arms.size(); ++arm) {
    const std::string of_arm = file_name(arms[arm]->name);
    const std::string name = fmt::format("trace-{}.json", of_arm);
    const LinkedTrace linked = traced.linked_trace(arm);
    write_trace(linked.trace, folder + "/" + name, linked.options);
    fmt::print("{}/{}   one arm, for Perfetto and for tools that read PyTorch's traces\n", shown, name);
    const std::string collapsed = fmt::format("stacks-{}.txt", of_arm);
    reports::write_atomically(folder + "/" + collapsed, reports::folded_stacks(stacks, arm));
    fmt::print("{}/{}   collapsed stacks, for flamegraph.pl and its like\n", shown, collapsed);
  }
}

/// Several arms in one profile.
int profile_aligned(const workloads::Workload& workload, const ProfileOptions& options) {
  std::vector<const workloads::Arm*> arms = arms_to_align(options.arms);  // the engine's; they come first
  const auto others_begin =
      std::stable_partition(arms.begin(), arms.end(), [](const workloads::Arm* arm) { return !arm->is_external(); });
  const std::vector<const workloads::Arm*> others(others_begin, arms.end());
  const int threads = options.threads.value_or(thread_count());
  cpus_for(threads);
  std::string title = workload.name;
  for (const workloads::Arm* arm : arms) {
    title += "-" + arm->name;
  }
  arms.erase(others_begin, arms.end());
  const UseThreads use(threads);
  ExternalProfiles external(workload, others, options.seed);
  const std::string folder = make_output_folder(options.out, "profile-" + title);
  AlignedTraces traced(workload, {arms, options.seed, options.steps, [&] { external.take_turns(); }});
  constexpr double kPartsSeconds = 0.5;
  constexpr double kTracingSeconds = 0.5;
  constexpr int kCountedCalls = 4;
  Aligned aligned;
  aligned.capability = reports::capability_text(traced.count_events(kCountedCalls));
  reports::ProfileInput input = traced.profile();
  std::ranges::move(external.profile(input.ops, options.steps), std::back_inserter(input.arms));
  input.parts = traced.measure_parts(kPartsSeconds);
  aligned.tracing = traced.measure_tracing(kTracingSeconds);
  aligned.watched = traced.watch_memory();
  aligned.memory = reports::memory_records(aligned.watched, reports::kNoMemoryLimits);
  aligned.profile = reports::align(input, reports::grouping_named(options.by));
  aligned.stacks = reports::align(input, reports::ProfileBy::stack);
  aligned.text = fmt::format("{}, {}: {} steady calls of each, in turns ({} each)\n", reports::printable(workload.name),
                             fmt::join(aligned.profile.arms, " beside "), options.steps, workload.unit);
  for (const std::vector<std::string>& notes : {traced.notes(), external.notes()}) {
    for (const std::string& note : notes) {
      aligned.text += note + "\n";
    }
  }
  print_aligned(aligned);
  write_aligned(aligned, workload, options.steps, folder);
  write_aligned_traces(traced, arms, aligned.stacks, folder);
  return kSuccess;
}

}  // namespace

int profile(const ProfileOptions& options) {
  const workloads::Workload& workload = resolve_workload(options.workload);
  if (!options.arms.empty()) {
    return profile_aligned(workload, options);
  }
  if (options.arm == "ladder" || options.arm.find(',') != std::string::npos) {
    throw Error(fmt::format("--arm {}: profile takes one arm, or --arms eager,graph; those of the ladder are {}",
                            reports::printable(options.arm), fmt::join(workloads::ladder_arms(), ", ")));
  }
  const workloads::Arm& arm = arm_to_profile(options.arm, "--arm");
  if (arm.is_external()) {
    throw Error(
        fmt::format("--arm {0}: a trace shows Diptych's own arms; what {0} takes op by op stands beside them in "
                    "a profile of several: --arms eager,graph,{0}",
                    arm.name));
  }
  const int threads = options.threads.value_or(thread_count());
  cpus_for(threads);
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
