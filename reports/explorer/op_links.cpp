#include "reports/explorer/op_links.h"

#include "reports/explorer/places.h"

namespace diptych::reports {
namespace {

void collect(const graph::Graph& graph, const Places& places, std::map<std::uint64_t, OpLinks>& links) {
  for (const graph::Node& node : graph.nodes) {
    for (const auto& region : node.regions) {
      collect(*region, places, links);
    }
    if (node.provenance.source_ops.empty()) {
      continue;
    }
    const std::uint32_t source = node.provenance.source_ops.front();
    OpLinks& of_op = links[source + std::uint64_t{1}];
    of_op.forward = places.of(node.provenance).gradient_of.value_or(source) + std::uint64_t{1};
    for (const graph::ValueId input : node.inputs) {
      of_op.operands.push_back(graph.types[input]);
    }
  }
}

}  // namespace

std::map<std::uint64_t, OpLinks> op_links(const graph::Graph& captured) {
  std::map<std::uint64_t, OpLinks> links;
  collect(captured, Places(captured), links);
  return links;
}

}  // namespace diptych::reports
