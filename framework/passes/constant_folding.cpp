// Constant folding: a node whose inputs are all constants is computed now, by the same eager kernel, so to the same
// bits. `full` is such a node: it has no inputs. Views stay: they cost nothing, and folding them would change layouts.
// So do results over 1 MiB: storing them would cost more than computing them.
//
//   %1 = full() {value=0.5}
//   %2 = square(%1)          =>   const %2 = {0.25}

#include "framework/core/context.h"
#include "framework/graph/capture.h"
#include "framework/ops/apply.h"
#include "framework/passes/pass.h"

namespace diptych::passes {

bool fold_constants(graph::Graph& graph) {
  constexpr std::int64_t kMostBytes = 1 << 20;
  const graph::CaptureScope eager(nullptr);
  const NoGrad no_tape;
  std::vector<Tensor> known(graph.types.size());
  for (const auto& [value, tensor] : graph.constants) {
    known[value] = tensor;
  }
  bool changed = false;
  std::erase_if(graph.nodes, [&](const graph::Node& node) {
    const TensorType& type = graph.types[node.output];
    if (node.op->view != nullptr || node.op->effect || node.is_control() ||
        type.shape.product() * static_cast<std::int64_t>(size_of(type.dtype)) > kMostBytes) {
      return false;
    }
    std::vector<const Tensor*> inputs;
    for (graph::ValueId input : node.inputs) {
      if (!known[input].defined()) {
        return false;
      }
      inputs.push_back(&known[input]);
    }
    try {
      known[node.output] = apply_eager(*node.op, inputs, node.attributes.get(), node.provenance.where);
    } catch (const Error&) {
      return false;  // it would fail at run time: let it, with its own message
    }
    graph.constants.emplace_back(node.output, known[node.output]);
    changed = true;
    return true;
  });
  return changed;
}

}  // namespace diptych::passes
