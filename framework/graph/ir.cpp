#include "framework/graph/ir.h"

#include <algorithm>

#include "framework/dispatch/op.h"
#include "framework/graph/control_ops.h"
#include "framework/graph/fused_op.h"

namespace diptych::graph {
namespace {

bool any_node(const Node& node, bool (*holds)(const Node& node)) {
  return std::any_of(node.regions.begin(), node.regions.end(), [&](const auto& region) {
    return std::any_of(region->nodes.begin(), region->nodes.end(), holds);
  });
}

}  // namespace

std::string_view name_of(InputKind kind) {
  constexpr std::string_view names[] = {"argument", "state", "captured"};
  return names[static_cast<int>(kind)];
}

std::vector<const TensorType*> Graph::input_types(const Node& node) const {
  std::vector<const TensorType*> result;
  result.reserve(node.inputs.size());
  for (ValueId input : node.inputs) {
    result.push_back(&types[input]);
  }
  return result;
}

bool Node::is_control() const { return op->kind == OpKind::control; }

bool has_effect(const Node& node) { return node.op->effect || any_node(node, has_effect); }

bool can_fail(const Node& node) {
  return node.op->can_fail || (node.is_control() && has_iteration_limit(node)) || any_node(node, can_fail);
}

std::size_t count_nodes(const Graph& graph) {
  std::size_t count = 0;
  for (const Node& node : graph.nodes) {
    count += node.op == &fused_op() ? 0 : 1;
    for (const auto& region : node.regions) {
      count += count_nodes(*region);
    }
  }
  return count;
}

}  // namespace diptych::graph
