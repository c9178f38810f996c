#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/aligned_profile.h"
#include "cli/artifacts.h"
#include "cli/names.h"
#include "cli/suggest.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "framework/core/parallel.h"
#include "framework/graph/fused_op.h"
#include "framework/runtime/check_stages.h"
#include "framework/runtime/placed_parts.h"
#include "framework/transforms/readiness.h"
#include "reports/analysis/roofline.h"
#include "reports/diagrams/graph_diagram.h"
#include "reports/explorer/explorer.h"
#include "reports/run/run_file.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"
#include "reports/views/fusion_views.h"
#include "reports/views/graph_inputs.h"
#include "reports/views/source_ops.h"
#include "workloads/arms/arm.h"
#include "workloads/harness/probes/fusion_clock.h"
#include "workloads/harness/probes/limits.h"

namespace diptych::cli {
namespace {

std::vector<const graph::Node*> placed_concats(const CompiledStages& compiled) {
  return runtime::placed_concats(compiled.stages.back().graph, compiled.computed);
}

/// Of all passes: each edge stands in one.
std::vector<passes::FusionRefusal> all_refusals(const CompiledStages& compiled) {
  std::vector<passes::FusionRefusal> all;
  for (const passes::PassRecord& record : compiled.compilation.passes) {
    all.insert(all.end(), record.refusals.begin(), record.refusals.end());
  }
  return all;
}

void print_fusion(const CompiledStages& compiled) {
  const std::vector<passes::FusionRefusal> refusals = all_refusals(compiled);
  std::size_t kernels = 0;
  std::size_t ops = 0;
  for (const graph::Node& node : compiled.stages.back().graph.nodes) {
    if (node.op == &graph::fused_op()) {
      ++kernels;
      for (const auto& region : node.regions) {
        ops += region->nodes.size();
      }
    }
  }
  fmt::print("fused: {} ops in {} kernels; {} results are read by ops in other kernels\n", ops, kernels,
             refusals.size());
  if (const std::size_t placed = placed_concats(compiled).size(); placed > 0) {
    fmt::print("in place: the parts of {} no kernel\n",
               placed == 1 ? "1 concat, which has" : fmt::format("{} concats, which have", placed));
  }
  constexpr std::size_t kMostGroups = 10;
  const std::vector<passes::RefusalGroup> groups = passes::grouped(refusals);
  if (groups.empty()) {
    return;
  }
  reports::TextTable table({"not fused", "edges", "why"});
  for (std::size_t i = 0; i < std::min(groups.size(), kMostGroups); ++i) {
    const passes::RefusalGroup& group = groups[i];
    table.add({fmt::format("{} -> {}", group.producer, group.consumer), fmt::format("{}", group.edges),
               passes::reason_of(group.why, group.nanoseconds)});
  }
  const reports::TableOptions layout;
  fmt::print("\n{}", table.render(layout.colour, layout.width));
  if (groups.size() > kMostGroups) {
    fmt::print("and {} more kinds; each edge stands at the end of the text of stage fuse\n",
               groups.size() - kMostGroups);
  }
}

reports::ExplorerTimes times_of(const workloads::Workload& workload, std::uint64_t seed) {
  // Clocks and neighbours change: the machine's limits count as they are before and after the arms.
  const std::vector<workloads::MemoryLevel> levels = workloads::memory_levels();
  const nlohmann::json before = workloads::measure_limits(levels, thread_count());
  const AlignedTraces traced(workload, {{&resolve_arm("eager"), &resolve_arm("graph")}, seed, AlignedRequest().steps});
  const nlohmann::json after = workloads::measure_limits(levels, thread_count());
  const std::optional<reports::MachineRoofs> roofs =
      reports::roofs_of({reports::Limits(before), reports::Limits(after)});
  const reports::ProfileInput& profile = traced.profile();
  reports::ExplorerTimes times{{},
                               {},
                               reports::seconds_by_source_op(profile, roofs ? &*roofs : nullptr),
                               reports::seconds_beside_source_ops(profile)};
  for (const reports::ProfiledArm& arm : profile.arms) {
    times.arms.push_back(arm.name);
    times.total_seconds.push_back(arm.total_seconds);
  }
  for (const std::string& note : traced.notes()) {
    fmt::print("{}\n", note);
  }
  return times;
}

/// All stages on one page, whichever are written one by one.
std::string explorer_page(const std::string& workload, const CompiledStages& compiled, reports::ExplorerTimes times) {
  reports::ExplorerInput input{workload, {}, all_refusals(compiled), std::move(times)};
  StatusLine status(kPatience);
  input.progress = [&](std::size_t done, std::size_t of) {
    status.show(fmt::format("graph.html: picture {} of {}", done, of));
  };
  const std::vector<passes::PassRecord>& records = compiled.compilation.passes;
  for (std::size_t i = 0; i < compiled.stages.size(); ++i) {
    const GraphStage& stage = compiled.stages[i];
    const double seconds = i == 0 ? compiled.compilation.capture_seconds : records[i - 1].seconds;
    input.stages.push_back({stage.name, &stage.graph, stage.changed, seconds});
  }
  return reports::render_explorer(input);
}

/// What wasn't fused, as comments behind the graph.
std::string refusals_of(const CompiledStages& compiled) {
  const std::vector<passes::FusionRefusal> refusals = all_refusals(compiled);
  std::string text;
  if (!refusals.empty()) {
    text = "\n# Not in one kernel:\n";
    for (const passes::FusionRefusal& refusal : refusals) {
      text += fmt::format("#   {}\n", passes::to_string(refusal));
    }
  }
  return text;
}

/// Concats without a kernel, likewise.
std::string placed_text(const CompiledStages& compiled) {
  std::string text;
  for (const graph::Node* const node : placed_concats(compiled)) {
    text += fmt::format("#   %{} of %{}\n", node->output(), fmt::join(node->inputs, ", %"));
  }
  return text.empty() ? text : "\n# Concats without a kernel, because their parts are written where they lie:\n" + text;
}

void print_passes(const CompiledStages& compiled) {
  const graph::Compilation& line = compiled.compilation;
  fmt::print("{:<20}{:>10}{:>8}{:>10}\n", "pass", "nodes", "", "time");
  fmt::print("{:<20}{:>10}{:>8}{:>10}\n", "captured", line.captured_nodes, "",
             reports::format_seconds(line.capture_seconds));
  for (const passes::PassRecord& pass : line.passes) {
    const auto difference = static_cast<std::int64_t>(pass.nodes_after) - static_cast<std::int64_t>(pass.nodes_before);
    fmt::print("{:<20}{:>10}{:>8}{:>10}{}\n", pass.name, pass.nodes_after,
               difference != 0 ? fmt::format("{:+}", difference) : "", reports::format_seconds(pass.seconds),
               pass.changed ? "" : "  (unchanged)");
  }
  const runtime::ExecutableStats& stats = compiled.executable;
  fmt::print("{:<20}{:>10}{:>8}{:>10}\n", "lowered", stats.instructions, "",
             reports::format_seconds(line.lower_seconds));
  fmt::print("temporaries: {} planned at {} ({}); no plan needs less than {}\n",
             reports::format_bytes(static_cast<double>(stats.temporary_bytes)),
             reports::format_bytes(static_cast<double>(stats.planned_peak_bytes)), stats.heuristic,
             reports::format_bytes(static_cast<double>(stats.lower_bound_bytes)));
  print_fusion(compiled);
  fmt::print("\n{}\n", reports::render_inputs(reports::graph_inputs(compiled.stages.back().graph)));
}

}  // namespace

namespace {

/// Two steps of the workload, each stage against the one before, and the whole against eager. The exit code.
int check_passes(const workloads::Workload& workload, std::uint64_t seed) {
  std::vector<GraphStage> stages;
  const workloads::Arm arm{"graph", "", "", observed_pipeline(stages)};
  workloads::ArmInstance compiled(workload, arm, seed);
  workloads::ArmInstance eager(workload, *workloads::find_arm("eager"), seed);
  std::map<std::string, std::string> differences;  // by stage
  const auto note = [&](const std::string& stage, int step, const std::string& difference) {
    differences.try_emplace(stage, fmt::format("step {}: {}", step, difference));
  };
  constexpr int kSteps = 2;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<Tensor> expected = eager.call(step);
    if (step > 0) {  // from here on there are stages; the states are those of the step before
      const auto inputs = compiled.program().inputs(step);
      const std::vector<Tensor> arguments(inputs.begin(), inputs.end());
      std::vector<graph::Graph> graphs;
      for (const GraphStage& stage : stages) {
        graphs.push_back(stage.graph);
      }
      const auto found = runtime::differences_of(graphs, arguments);
      for (std::size_t i = 0; i < stages.size(); ++i) {
        if (found[i]) {
          note(stages[i].name, step, to_string(*found[i]));
        }
      }
    }
    const std::vector<Tensor> actual = compiled.call(step);
    const auto compare = [&](const Tensor& of_eager, const Tensor& of_graph, const std::string& what) {
      if (const auto found = runtime::first_difference(of_eager, of_graph)) {
        note("lowered", step,
             fmt::format("{}, {}: element {} is {}, not {}", what, to_string(found->type), found->element,
                         found->actual, found->expected));
      }
    };
    for (std::size_t i = 0; i < expected.size(); ++i) {
      compare(expected[i], actual[i], fmt::format("output {}", i));
    }
    const Variables of_eager = eager.program().state();
    const Variables of_graph = compiled.program().state();
    for (std::size_t i = 0; i < of_eager.size(); ++i) {
      compare(of_eager[i].value(), of_graph[i].value(), fmt::format("state {} after it", i));
    }
  }
  reports::TextTable table({"stage", "nodes", "bits"});
  std::string first;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const auto found = differences.find(stages[i].name);
    const bool is_same = found == differences.end();
    table.add({stages[i].name, fmt::format("{}", graph::count_nodes(stages[i].graph)),
               i == 0              ? "as captured"
               : !is_same          ? reports::printable(found->second)
               : stages[i].changed ? "the same, value by value"
                                   : "unchanged"});
    first = first.empty() && !is_same ? stages[i].name : first;
  }
  const auto lowered = differences.find("lowered");
  table.add({"lowered", "",
             lowered == differences.end() ? "those of eager: outputs and states of 2 steps"
                                          : reports::printable(lowered->second)});
  const reports::TableOptions layout;
  fmt::print("{}\n", table.render(layout.colour, layout.width));
  if (!differences.empty()) {
    fmt::print("{} is the first that changes a bit\n", first.empty() ? "the capture, or the lowering," : first);
    return kFailure;
  }
  return kSuccess;
}

int time_fused(const workloads::Workload& workload, std::uint64_t seed) {
  constexpr double kBudgetSeconds = 2;
  constexpr std::size_t kMostRows = 30;
  const std::vector<workloads::KernelTiming> timings =
      workloads::time_fused_kernels(workload, *workloads::find_arm("graph")->pipeline, seed, kBudgetSeconds);
  if (timings.empty()) {
    fmt::print("{}: nothing is fused\n", workload.name);
    return kSuccess;
  }
  const nlohmann::json kernels = workloads::to_json(timings, {});
  reports::TextTable table({"pass", "ops", "fused", "apart", "fused / apart", ""});
  double fused = 0;
  double apart = 0;
  std::size_t losses = 0;
  for (std::size_t i = 0; i < timings.size(); ++i) {
    const workloads::KernelTiming& timing = timings[i];
    fused += timing.fused_seconds;
    apart += timing.apart_seconds;
    losses += timing.is_loss() ? 1 : 0;
    if (i < kMostRows) {
      table.add({timing.pass, timing.ops(), reports::format_seconds(timing.fused_seconds),
                 reports::format_seconds(timing.apart_seconds),
                 fmt::format("{:.2f} [{:.2f}, {:.2f}]", timing.ratio, timing.low, timing.high),
                 reports::fused_verdict(reports::FusedEntry(kernels[i]))});
    }
  }
  const reports::TableOptions layout;
  fmt::print("{}\n", table.render(layout.colour, layout.width));
  if (timings.size() > kMostRows) {
    fmt::print("and {} more, which lose less or gain more\n", timings.size() - kMostRows);
  }
  fmt::print("{} fused kernels take {}, what they replace {}; {} of them lose\n", timings.size(),
             reports::format_seconds(fused), reports::format_seconds(apart), losses);
  if (losses > 0) {
    fmt::print("`diptych ladder {} --veto-losses` measures without these\n", reports::printable(workload.name));
  }
  return kSuccess;
}

int readiness(const workloads::Workload& workload, std::uint64_t seed) {
  const auto program = workload.make(seed);
  const auto arguments = [&](std::int64_t step) {
    const auto inputs = program->inputs(step);
    return std::vector<Tensor>(inputs.begin(), inputs.end());
  };
  const std::vector<Tensor> first = arguments(0);
  const std::vector<Tensor> second = arguments(1);
  const std::vector<graph::Finding> findings =
      graph::find_obstacles([&](std::span<const Tensor> inputs) { return program->body(inputs); }, first, second);
  if (findings.empty()) {
    fmt::print("{}: nothing stops or hurts a capture (two calls in eager, and a capture)\n", workload.name);
    return kSuccess;
  }
  for (const graph::Finding& finding : findings) {
    fmt::print("{}{}: {}\n    {}\n", graph::name_of(finding.obstacle),
               finding.where.line > 0 ? fmt::format(" at {}", to_string(finding.where)) : "",
               reports::printable(finding.what), finding.way_out);
  }
  return kFailure;
}

}  // namespace

int graph(const GraphOptions& options) {
  const workloads::Workload& workload = resolve_workload(options.workload);
  if (options.readiness) {
    return readiness(workload, options.seed);
  }
  if (options.check_passes) {
    return check_passes(workload, options.seed);
  }
  if (options.time_fused) {
    return time_fused(workload, options.seed);
  }
  const CompiledStages compiled = compile_stages(workload, options.seed);
  std::vector<std::string> names;
  for (const GraphStage& stage : compiled.stages) {
    names.push_back(stage.name);
  }
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (options.stage == "all" || options.stage == names[i] || (options.stage == "final" && i + 1 == names.size())) {
      chosen.push_back(i);
    }
  }
  const bool writes_page = std::find(options.formats.begin(), options.formats.end(), "html") != options.formats.end();
  if (options.times && !writes_page) {
    throw Error("--times is for graph.html: leave out --format, or add html to it");
  }
  if (chosen.empty()) {
    names.emplace_back("final");
    names.emplace_back("all");
    throw Error(unknown("stage", options.stage, names));
  }
  const std::string folder = make_output_folder(options.out, "graph-" + workload.name);
  print_passes(compiled);
  for (const std::size_t i : chosen) {
    const GraphStage& stage = compiled.stages[i];
    const std::string base = fmt::format("{}/{:02}-{}", folder, i, stage.name);
    const std::string title = fmt::format("{}: {}{}", workload.name, i == 0 ? "as captured" : "after " + stage.name,
                                          stage.changed ? "" : " (unchanged)");
    for (const std::string& format : options.formats) {
      if (format == "html") {
        continue;
      }
      const std::string text =
          format == "txt"
              ? graph::print(stage.graph) + (stage.name == "fuse" ? refusals_of(compiled) + placed_text(compiled) : "")
          : format == "dot"
              ? reports::to_dot(reports::graph_diagram(stage.graph, i > 0 ? &compiled.stages[i - 1].graph : nullptr))
              : render_stage(compiled, i, title, fmt::format("s{}", i));
      reports::write_atomically(fmt::format("{}.{}", base, format), text);
      fmt::print("{}.{}\n", reports::printable(base), format);
    }
  }
  if (writes_page) {
    const std::string path = folder + "/graph.html";
    reports::write_atomically(
        path, explorer_page(workload.name, compiled,
                            options.times ? times_of(workload, options.seed) : reports::ExplorerTimes()));
    fmt::print("{}\n", reports::printable(path));
  }
  return kSuccess;
}

}  // namespace diptych::cli
