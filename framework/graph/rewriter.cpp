#include "framework/graph/rewriter.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "framework/dispatch/op.h"

namespace diptych::graph {

Users::Users(const Graph& graph) : begin_(graph.types.size() + 1, 0), is_result_(graph.types.size(), false) {
  for (const Node& node : graph.nodes) {
    for (const ValueId input : node.inputs) {
      ++begin_[input + 1];
    }
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  places_.resize(begin_.back());
  std::vector<std::uint32_t> next(begin_.begin(), begin_.end() - 1);
  for (std::uint32_t place = 0; place < graph.nodes.size(); ++place) {
    for (const ValueId input : graph.nodes[place].inputs) {
      places_[next[input]++] = place;
    }
  }
  for (const ValueId output : graph.outputs) {
    is_result_[output] = true;
  }
  for (const Update& update : graph.updates) {
    is_result_[update.value] = true;
  }
}

Producers::Producers(const Graph& graph) : nodes_(graph.types.size(), kNone) {
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId output : graph.nodes[i].outputs) {
      nodes_[output] = i;
    }
  }
}

Rewriter::Rewriter(Graph& graph)
    : graph_(graph),
      replacement_(graph.types.size()),
      producer_(graph.types.size(), kNone),
      constant_(graph.types.size(), kNone) {
  std::iota(replacement_.begin(), replacement_.end(), 0U);
  for (std::uint32_t i = 0; i < graph.constants.size(); ++i) {
    constant_[graph.constants[i].first] = i;
  }
}

const Node* Rewriter::producer(ValueId value) const {
  return producer_[value] != kNone ? &graph_.nodes[producer_[value]] : nullptr;
}

const Tensor* Rewriter::constant(ValueId value) const {
  return constant_[value] != kNone ? &graph_.constants[constant_[value]].second : nullptr;
}

ValueId Rewriter::new_value(const TensorType& type) {
  const ValueId value = graph_.new_value(type);
  replacement_.push_back(value);
  producer_.push_back(kNone);
  constant_.push_back(kNone);
  return value;
}

std::optional<TensorType> Rewriter::inferred(const OpDef& op, std::span<const ValueId> inputs,
                                             const AttributeValue& attributes) const {
  std::vector<const TensorType*> types;
  for (const ValueId input : inputs) {
    types.push_back(&graph_.types[input]);
  }
  TensorType type;
  try {
    op.infer_type({op, types, attributes.get(), {}}, type);
  } catch (const Error&) {
    return std::nullopt;
  }
  return type;
}

ValueId Rewriter::insert(const OpDef& op, std::vector<ValueId> inputs, const AttributeValue& attributes,
                         const Node& for_whom) {
  const std::optional<TensorType> type = inferred(op, inputs, attributes);
  internal_check(type.has_value(), "a pass inserts a node that its op refuses");
  const ValueId output = new_value(*type);
  keep({&op, attributes, std::move(inputs), {output}, for_whom.provenance});
  changed_ = true;
  return output;
}

ValueId Rewriter::insert_constant(const Tensor& tensor) {
  const ValueId value = new_value(tensor.type());
  constant_[value] = static_cast<std::uint32_t>(graph_.constants.size());
  graph_.constants.emplace_back(value, tensor);
  changed_ = true;
  return value;
}

void Rewriter::become(Node& node, const OpDef& op, std::vector<ValueId> inputs, const AttributeValue& attributes) {
  node.op = &op;
  node.inputs = std::move(inputs);
  node.attributes = attributes;
  changed_ = true;
}

void Rewriter::become_constant(Node& node, const Tensor& tensor) {
  constant_[node.output()] = static_cast<std::uint32_t>(graph_.constants.size());
  graph_.constants.emplace_back(node.output(), tensor);
  drop(node);
}

void Rewriter::drop(Node& node) {
  node.outputs.clear();
  changed_ = true;
}

void Rewriter::replace(const Node& node, ValueId with) {
  replacement_[node.output()] = with;
  if (producer_[with] != kNone) {
    merge_provenance(graph_.nodes[producer_[with]].provenance, node.provenance);
  }
  changed_ = true;
}

void Rewriter::resolve(Node& node) {
  for (ValueId& input : node.inputs) {
    input = resolved(input);
  }
}

void Rewriter::keep(Node&& node) {
  if (node.outputs.empty()) {
    return;
  }
  for (const ValueId output : node.outputs) {
    producer_[output] = static_cast<std::uint32_t>(graph_.nodes.size());
  }
  graph_.nodes.push_back(std::move(node));
}

void Rewriter::finish() {
  for (ValueId& output : graph_.outputs) {
    output = resolved(output);
  }
  for (Update& update : graph_.updates) {
    update.value = resolved(update.value);
  }
  std::erase_if(graph_.updates,
                [&](const Update& update) { return update.value == graph_.inputs[update.input].value; });
}

void merge_provenance(Provenance& to, const Provenance& from) {
  std::vector<std::uint32_t> merged;
  std::set_union(to.source_ops.begin(), to.source_ops.end(), from.source_ops.begin(), from.source_ops.end(),
                 std::back_inserter(merged));
  to.source_ops = std::move(merged);
}

}  // namespace diptych::graph
