#include "framework/graph/work.h"

namespace diptych::graph {

std::optional<Cost> work_of(const Graph& graph, const Node& node) {
  if (node.is_control()) {
    return std::nullopt;
  }
  if (node.regions.empty()) {
    return cost_of(*node.op, graph.input_types(node), node.attributes.get(), graph.types[node.output()]);
  }
  Cost work;
  for (const auto& region : node.regions) {
    for (const Node& inner : region->nodes) {
      const std::optional<Cost> part = work_of(*region, inner);
      if (!part) {
        return std::nullopt;
      }
      work.flops += part->flops;
    }
  }
  for (const auto* values : {&node.inputs, &node.outputs}) {
    for (const ValueId value : *values) {
      work.bytes += static_cast<double>(bytes_of(graph.types[value]));
    }
  }
  return work;
}

}  // namespace diptych::graph
