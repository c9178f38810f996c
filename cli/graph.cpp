#include <fmt/format.h>

#include "cli/artifacts.h"
#include "cli/names.h"
#include "cli/suggest.h"
#include "cli/verbs.h"
#include "reports/diagrams/graph_diagram.h"
#include "reports/run/run_file.h"
#include "reports/text/format.h"
#include "reports/text/text.h"
#include "reports/views/graph_inputs.h"

namespace diptych::cli {
namespace {

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
  fmt::print("\n{}\n", reports::render_inputs(reports::graph_inputs(compiled.stages.back().graph)));
}

}  // namespace

int graph(const GraphOptions& options) {
  const workloads::Workload& workload = resolve_workload(options.workload);
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
      const std::string text =
          format == "txt" ? graph::print(stage.graph)
          : format == "dot"
              ? reports::to_dot(reports::graph_diagram(stage.graph, i > 0 ? &compiled.stages[i - 1].graph : nullptr))
              : render_stage(compiled, i, title, fmt::format("s{}", i));
      reports::write_atomically(fmt::format("{}.{}", base, format), text);
      fmt::print("{}.{}\n", reports::printable(base), format);
    }
  }
  return kSuccess;
}

}  // namespace diptych::cli
