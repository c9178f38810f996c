#include "workloads/harness/probes/arithmetic.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/capture/capture.h"
#include "framework/graph/work.h"
#include "framework/passes/pass.h"

namespace diptych::workloads {

std::optional<graph::Graph> captured(Program& program, const std::string& name) {
  graph::Capture capture(name);
  std::vector<Tensor> arguments;
  for (const Tensor& input : program.inputs(0)) {
    const Strides strides = input.strides();
    arguments.push_back(capture.argument(input.type(), fmt::format("argument{}", arguments.size()), &strides));
  }
  try {
    const graph::CaptureScope scope(capture);
    return capture.finish(program.body(arguments), Location::current());
  } catch (const Error&) {
    return std::nullopt;
  }
}

double nominal_seconds(const graph::Graph& graph) {
  constexpr double kOperations = 50e9;  // a second
  constexpr double kBytes = 10e9;
  double seconds = 0;
  for (const graph::Node& node : graph.nodes) {
    const Cost work = graph::work_of(graph, node).value_or(Cost{});
    seconds += work.flops / kOperations + work.bytes / kBytes;
  }
  return seconds;
}

double least_operations(graph::Graph graph) {
  passes::PipelineOptions options;
  options.disabled.insert(passes::kFusingPasses.begin(), passes::kFusingPasses.end());
  passes::run_pipeline(graph, options);
  std::vector<bool> varies(graph.types.size(), false);
  for (const graph::Input& input : graph.inputs) {
    varies[input.value] = input.kind == graph::InputKind::argument;
  }
  for (const graph::Update& update : graph.updates) {
    varies[graph.inputs[update.input].value] = true;
  }
  double operations = 0;
  for (const graph::Node& node : graph.nodes) {
    if (std::none_of(node.inputs.begin(), node.inputs.end(), [&](graph::ValueId input) { return varies[input]; })) {
      continue;  // the same in every call: once is enough
    }
    for (const graph::ValueId output : node.outputs) {
      varies[output] = true;
    }
    const double flops = graph::work_of(graph, node).value_or(Cost{}).flops;
    const auto elements = static_cast<double>(graph.types[node.output()].shape.product());
    operations += node.op->elementwise() ? std::min(flops, elements) : flops;
  }
  return operations;
}

}  // namespace diptych::workloads
