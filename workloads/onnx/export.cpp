#include "workloads/onnx/export.h"

#include <fmt/format.h>

#include "framework/capture/capture.h"
#include "framework/core/context.h"
#include "framework/dispatch/op.h"

namespace diptych::workloads {

ExportedWorkload export_workload(const Workload& workload, std::uint64_t seed, std::int64_t steps) {
  const std::unique_ptr<Program> program = workload.make(seed);
  for (std::int64_t step = 0; step < steps; ++step) {
    program->body(program->inputs(step));
  }
  ExportedWorkload result;
  result.inputs = program->forward_inputs();
  const NoGrad guard;
  result.outputs = program->forward(result.inputs);
  graph::Capture capture(workload.name);
  std::vector<Tensor> arguments;
  for (std::size_t i = 0; i < result.inputs.size(); ++i) {
    arguments.push_back(capture.argument(result.inputs[i].type(), fmt::format("input_{}", i)));
  }
  std::vector<Tensor> outputs;
  {
    const graph::CaptureScope scope(capture);
    outputs = program->forward(arguments);
  }
  const graph::Graph graph = capture.finish(outputs, Location::current());
  result.model = onnx::export_graph(graph, result.op_of_node);
  for (const graph::Node& node : graph.nodes) {
    result.ops.push_back(node.op->name);
  }
  return result;
}

void write_case(const ExportedWorkload& exported, const std::filesystem::path& folder) {
  const std::filesystem::path data = folder / "test_data_set_0";
  std::filesystem::create_directories(data);
  onnx::write_model(exported.model, folder / "model.onnx");
  const auto write_all = [&](const std::vector<Tensor>& tensors, const std::vector<onnx::ValueInfo>& infos,
                             const char* prefix) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      onnx::write_tensor({infos[i].name, tensors[i]}, data / fmt::format("{}_{}.pb", prefix, i));
    }
  };
  write_all(exported.inputs, exported.model.graph->inputs, "input");
  write_all(exported.outputs, exported.model.graph->outputs, "output");
}

}  // namespace diptych::workloads
