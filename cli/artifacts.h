#pragma once

#include <string>
#include <vector>

#include "profiler/op_table.h"
#include "profiler/trace.h"
#include "reports/html.h"
#include "workloads/arms/arm.h"

/// What a run, `graph` and `profile` write besides figures: graphs by stage, traces and op tables.
namespace diptych::cli {

struct GraphStage {
  std::string name;  ///< "captured", or the pass after which it stands
  graph::Graph graph;
  bool changed;
};

/// Compiles the workload's program under the arm "graph", noting the graph as captured and after every pass. The second
/// result is what the compilation printed of itself: a line a pass.
struct CompiledStages {
  std::vector<GraphStage> stages;
  graph::Compilation compilation;
  runtime::ExecutableStats executable;
};
CompiledStages compile_stages(const workloads::Workload& workload, std::uint64_t seed);

/// The SVG of stage `index`, with what is new in it marked.
std::string render_stage(const CompiledStages& compiled, std::size_t index, const std::string& title,
                         const std::string& id_prefix);

/// The pictures of a run's folder that fit into its report: `graphs/<workload>.svg` of each valid cell, but for those
/// of graphs with very many nodes.
std::vector<reports::NamedSvg> report_pictures(const nlohmann::json& run, const std::string& folder);

struct Profile {
  profiler::Trace trace;
  profiler::OpTable table;
};
/// Traces `steps` steady calls, each in a zone "ProfilerStep#N", after `warm_up` calls.
Profile trace_calls(workloads::ArmInstance& instance, int warm_up, int steps);

/// Writes the trace for Perfetto, whole or not at all. Throws FileError.
void write_trace(const profiler::Trace& trace, const std::string& path);

}  // namespace diptych::cli
