// Dead code elimination: drops nodes and constants that no output or update needs. Inputs stay, because they are the
// graph's signature. Nodes with effects stay, too.
//
// Regions are processed separately, with all of their outputs counting as needed. A control-flow node is kept whole if
// any of its outputs is needed.
//
//   %3 = exp(%0)          (nothing reads %3)
//   return %1       =>    return %1

#include "framework/passes/pass.h"

namespace diptych::passes {

bool eliminate_dead_code(graph::Graph& graph, const PassContext& /*context*/) {
  std::vector<bool> needed(graph.types.size(), false);
  for (graph::ValueId output : graph.outputs) {
    needed[output] = true;
  }
  for (const graph::Update& update : graph.updates) {
    needed[update.value] = true;
  }
  const auto stays = [&](const graph::Node& node) {
    bool wanted = graph::has_effect(node);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      wanted = wanted || needed[node.outputs[i]];
    }
    return wanted;
  };
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (stays(*node)) {
      for (graph::ValueId input : node->inputs) {
        needed[input] = true;
      }
    }
  }
  std::size_t dropped = std::erase_if(graph.nodes, [&](const graph::Node& node) { return !stays(node); });
  dropped += std::erase_if(graph.constants, [&](const auto& constant) { return !needed[constant.first]; });
  return dropped > 0;
}

}  // namespace diptych::passes
