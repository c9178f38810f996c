#include "framework/graph/ir.h"

namespace diptych::graph {

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

}  // namespace diptych::graph
