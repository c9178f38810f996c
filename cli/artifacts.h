#pragma once

#include <string>
#include <vector>

#include "profiler/trace/chrome_trace.h"
#include "profiler/trace/op_table.h"
#include "profiler/trace/trace.h"
#include "reports/html/html.h"
#include "reports/run/run.h"
#include "workloads/arms/arm.h"

/// What a run, `graph` and `profile` write in addition to figures: graphs by stage, traces and op tables.
namespace diptych::cli {

struct GraphStage {
  std::string name;  ///< "captured", or the pass that produced it
  graph::Graph graph;
  bool changed;
};

/// Compiles the workload's program under the arm "graph", keeping the graph as captured and after every pass. The
/// second result is the compilation's own report: one line per pass.
struct CompiledStages {
  std::vector<GraphStage> stages;
  graph::Compilation compilation;
  runtime::ExecutableStats executable;
  std::vector<graph::ValueId> computed;  ///< by instructions
};
/// Every pass, each stage appended to `stages`, which must live as long as the options.
passes::PipelineOptions observed_pipeline(std::vector<GraphStage>& stages);
CompiledStages compile_stages(const workloads::Workload& workload, std::uint64_t seed);

/// The SVG of stage `index`, with what is new in it marked.
std::string render_stage(const CompiledStages& compiled, std::size_t index, const std::string& title,
                         const std::string& id_prefix);

/// The pictures of a run's folder for its report: `graphs/<workload>.svg` of each valid cell.
std::vector<reports::NamedSvg> report_pictures(const reports::Run& run, const std::string& folder);

struct Profile {
  profiler::Trace trace;
  profiler::OpTable table;
};
/// Traces `steps` steady calls, each in a zone "ProfilerStep#N", after `warm_up` calls.
Profile trace_calls(workloads::ArmInstance& instance, int warm_up, int steps);

/// Writes the trace for Perfetto, whole or not at all, with the names of what the ops of `graph` read, if it is given.
/// Throws FileError.
void write_trace(const profiler::Trace& trace, const std::string& path, const graph::Graph* graph = nullptr);
void write_trace(const profiler::Trace& trace, const std::string& path, const profiler::ChromeTraceOptions& options);

/// The graph that the instance's arm has compiled; null for eager.
const graph::Graph* compiled_graph(const workloads::ArmInstance& instance);

}  // namespace diptych::cli
