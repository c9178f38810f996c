#include "framework/graph/work.h"

#include <algorithm>

#include "framework/graph/splat.h"
#include "framework/ops/binary.h"
#include "framework/ops/elementwise_ops.h"

namespace diptych::graph {
namespace {

/// The number that an input of the node always is. Numbers mostly stand right before their node, so the search starts
/// there.
std::optional<double> number_in(const Graph& graph, const Node& node, ValueId input) {
  const auto before = graph.nodes.rend() - (&node - graph.nodes.data());
  const auto producer = [&](ValueId value) {
    const auto found = std::find_if(before, graph.nodes.rend(), [&](const Node& other) {
      return std::find(other.outputs.begin(), other.outputs.end(), value) != other.outputs.end();
    });
    return found != graph.nodes.rend() ? &*found : nullptr;
  };
  const auto constant = [&](ValueId value) {
    const auto found = std::find_if(graph.constants.begin(), graph.constants.end(),
                                    [&](const auto& known) { return known.first == value; });
    return found != graph.constants.end() ? &found->second : nullptr;
  };
  return splat_of(input, producer, constant);
}

}  // namespace

std::optional<Cost> work_of(const Graph& graph, const Node& node) {
  if (node.is_control()) {
    return std::nullopt;
  }
  if (node.regions.empty()) {
    const TensorType& output = graph.types[node.output()];
    Cost cost = cost_of(*node.op, graph.input_types(node), node.attributes.get(), output);
    if (const auto exponent = node.op == &op::pow ? number_in(graph, node, node.inputs[1]) : std::nullopt) {
      cost.flops = ops::flops_of_pow(*exponent) * static_cast<double>(output.shape.product());
    }
    return cost;
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
