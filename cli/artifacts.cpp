#include "cli/artifacts.h"

#include <deque>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "cli/names.h"
#include "profiler/trace/chrome_trace.h"
#include "profiler/trace/tracer.h"
#include "reports/diagrams/graph_diagram.h"
#include "reports/run/run_file.h"
#include "reports/views/graph_inputs.h"

namespace diptych::cli {

passes::PipelineOptions observed_pipeline(std::vector<GraphStage>& stages) {
  passes::PipelineOptions pipeline;  // that of the arm "graph": every pass
  pipeline.observe = [&stages](const std::string& stage, const graph::Graph& graph, bool changed) {
    stages.push_back({stage, graph, changed});
  };
  return pipeline;
}

CompiledStages compile_stages(const workloads::Workload& workload, std::uint64_t seed) {
  CompiledStages result;
  const workloads::Arm arm{"graph", "", "", observed_pipeline(result.stages)};
  workloads::ArmInstance instance(workload, arm, seed);
  instance.call(0);
  result.compilation = instance.compiled()->ledger().front();
  const runtime::Executable& executable = *instance.compiled()->executable();
  result.executable = executable.stats();
  result.computed.assign(executable.values().begin(), executable.values().end());
  return result;
}

std::string render_stage(const CompiledStages& compiled, std::size_t index, const std::string& title,
                         const std::string& id_prefix) {
  const graph::Graph* before = index > 0 ? &compiled.stages[index - 1].graph : nullptr;
  reports::Diagram diagram = reports::graph_diagram(compiled.stages[index].graph, before);
  diagram.title = title;
  reports::DiagramOptions options;
  options.id_prefix = id_prefix;
  return reports::render_svg(diagram, options);
}

std::vector<reports::NamedSvg> report_pictures(const reports::Run& run, const std::string& folder) {
  std::vector<reports::NamedSvg> pictures;
  for (const reports::Cell cell : run.cells()) {
    const std::string file = fmt::format("graphs/{}.svg", file_name(cell.workload()));
    std::ifstream in(fmt::format("{}/{}", folder, file));
    if (in) {
      pictures.push_back(
          reports::graph_picture(cell.workload(), std::string(std::istreambuf_iterator<char>(in), {}), file));
    }
  }
  return pictures;
}

Profile trace_calls(workloads::ArmInstance& instance, int warm_up, int steps) {
  const profiler::TracerOverhead overhead = profiler::measure_overhead();
  for (int step = 0; step < warm_up; ++step) {
    instance.call(step);
  }
  instance.finish();
  // Labels must outlive the trace.
  static std::deque<trace::Label> labels;
  const std::size_t first = labels.size();
  for (int step = 0; step < steps; ++step) {
    labels.push_back({intern(fmt::format("ProfilerStep#{}", step)), trace::Category::user});
  }
  profiler::Tracer tracer;
  tracer.start();
  for (int step = 0; step < steps; ++step) {
    const trace::Zone zone(&labels[first + static_cast<std::size_t>(step)]);
    instance.call(warm_up + step);
  }
  instance.finish();
  Profile profile{tracer.stop(), {}};
  profile.table = profiler::op_table(profile.trace, overhead);
  return profile;
}

const graph::Graph* compiled_graph(const workloads::ArmInstance& instance) {
  return instance.compiled() != nullptr ? instance.compiled()->graph() : nullptr;
}

void write_trace(const profiler::Trace& trace, const std::string& path, const graph::Graph* graph) {
  profiler::ChromeTraceOptions options;
  if (graph != nullptr) {
    for (const auto& [source_op, names] : reports::reads_by_source_op(*graph)) {
      options.arguments[source_op].reads = names;
    }
  }
  write_trace(trace, path, options);
}

void write_trace(const profiler::Trace& trace, const std::string& path, const profiler::ChromeTraceOptions& options) {
  std::ostringstream text;
  profiler::write_chrome_trace(trace, text, options);
  reports::write_atomically(path, text.str());
}

}  // namespace diptych::cli
