#include "cli/artifacts.h"

#include <deque>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "cli/names.h"
#include "profiler/chrome_trace.h"
#include "profiler/tracer.h"
#include "reports/graph_diagram.h"
#include "reports/run_file.h"

namespace diptych::cli {

CompiledStages compile_stages(const workloads::Workload& workload, std::uint64_t seed) {
  CompiledStages result;
  passes::PipelineOptions pipeline;  // that of the arm "graph": every pass
  pipeline.observe = [&](const std::string& stage, const graph::Graph& graph, bool changed) {
    result.stages.push_back({stage, graph, changed});
  };
  const workloads::Arm arm{"graph", "", "", std::move(pipeline)};
  workloads::ArmInstance instance(workload, arm, seed);
  instance.call(0);
  result.compilation = instance.compiled()->ledger().front();
  result.executable = instance.compiled()->executable()->stats();
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

std::vector<reports::NamedSvg> report_pictures(const nlohmann::json& run, const std::string& folder) {
  constexpr std::int64_t kMostNodes = 160;  // a longer picture belongs into a file of its own
  std::vector<reports::NamedSvg> pictures;
  for (const nlohmann::json& cell : run["cells"]) {
    const nlohmann::json& nodes = cell["arms"].empty() ? cell["arms"] : cell["arms"].back()["exact"]["nodes"];
    std::ifstream file(fmt::format("{}/graphs/{}.svg", folder, file_name(cell["workload"].get<std::string>())));
    if (file && nodes.is_number() && nodes.get<std::int64_t>() <= kMostNodes) {
      pictures.push_back({fmt::format("{}: the graph after all passes", cell["workload"].get<std::string>()),
                          std::string(std::istreambuf_iterator<char>(file), {})});
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
  // Labels have to outlive the trace.
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

void write_trace(const profiler::Trace& trace, const std::string& path) {
  std::ostringstream text;
  profiler::write_chrome_trace(trace, text);
  reports::write_atomically(path, text.str());
}

}  // namespace diptych::cli
