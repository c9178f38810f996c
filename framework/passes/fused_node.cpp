#include "framework/passes/fused_node.h"

#include <map>
#include <memory>

#include <fmt/format.h>

#include "framework/graph/fused_op.h"
#include "framework/graph/rewriter.h"

namespace diptych::passes {

using graph::ValueId;

std::vector<ValueId> inputs_of(const graph::Graph& graph, std::span<const std::uint32_t> nodes) {
  std::set<ValueId> known;
  for (const std::uint32_t node : nodes) {
    known.insert(graph.nodes[node].output());
  }
  std::vector<ValueId> inputs;
  for (const std::uint32_t node : nodes) {
    for (const ValueId input : graph.nodes[node].inputs) {
      if (known.insert(input).second) {
        inputs.push_back(input);
      }
    }
  }
  return inputs;
}

graph::Node fused_node(const graph::Graph& graph, std::span<const std::uint32_t> nodes, const std::set<ValueId>& kept) {
  auto region = std::make_shared<graph::Graph>();
  region->name = "fused";
  std::map<ValueId, ValueId> inside;
  graph::Node result{&graph::fused_op(), {}, inputs_of(graph, nodes), {}, graph.nodes[nodes.front()].provenance};
  for (const ValueId input : result.inputs) {
    inside[input] = region->new_value(graph.types[input]);
    region->inputs.push_back({inside[input], graph::InputKind::argument, fmt::format("%{}", input), {}, {}});
  }
  for (const std::uint32_t at : nodes) {
    graph::Node node = graph.nodes[at];
    const ValueId output = node.output();
    for (ValueId& input : node.inputs) {
      input = inside.at(input);
    }
    inside[output] = region->new_value(graph.types[output]);
    node.outputs = {inside[output]};
    graph::merge_provenance(result.provenance, node.provenance);
    region->nodes.push_back(std::move(node));
    if (kept.contains(output)) {
      region->outputs.push_back(inside[output]);
      result.outputs.push_back(output);
    }
  }
  result.regions.push_back(std::move(region));
  return result;
}

}  // namespace diptych::passes
