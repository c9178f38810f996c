#pragma once

#include <optional>
#include <span>
#include <vector>

#include "framework/graph/ir.h"

namespace diptych::graph {

/// The users of each value of a graph: nodes by their index in `Graph::nodes`, once per read.
class Users {
 public:
  explicit Users(const Graph& graph);

  std::span<const std::uint32_t> of(ValueId value) const { return {places_.data() + begin_[value], count(value)}; }
  std::size_t count(ValueId value) const { return begin_[value + 1] - begin_[value]; }
  /// Whether the value leaves the graph: as an output, or as the new value of a state.
  bool is_result(ValueId value) const { return is_result_[value]; }

 private:
  std::vector<std::uint32_t> begin_;
  std::vector<std::uint32_t> places_;
  std::vector<bool> is_result_;
};

/// The node that makes each value of a graph, by its index in `Graph::nodes`; kNone for inputs and constants.
class Producers {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  explicit Producers(const Graph& graph);

  std::uint32_t operator[](ValueId value) const { return nodes_[value]; }
  /// The node itself, or null. `graph`: the one that this was made of, as it was then.
  const Node* node(const Graph& graph, ValueId value) const {
    return nodes_[value] == kNone ? nullptr : &graph.nodes[nodes_[value]];
  }

 private:
  std::vector<std::uint32_t> nodes_;
};

/// One sweep over a graph that changes it. Nodes are visited in execution order, with their inputs already replaced.
///
///   Rewriter rewriter(graph);
///   return rewriter.run([&](Node& node) {
///     if (node.op == &op::copy) rewriter.replace(node, node.inputs[0]);
///   });
class Rewriter {
 public:
  explicit Rewriter(Graph& graph);

  const Graph& graph() const { return graph_; }
  const TensorType& type(ValueId value) const { return graph_.types[value]; }
  /// The node that makes the value, if the sweep has reached it; null for inputs, constants and later nodes. Valid
  /// until the next node.
  const Node* producer(ValueId value) const;
  /// Null if the value isn't a constant. Valid until the next constant.
  const Tensor* constant(ValueId value) const;

  /// Calls `visit(node)` for each node. True if anything has changed.
  template <class Visit>
  bool run(const Visit& visit) {
    std::vector<Node> nodes = std::move(graph_.nodes);
    graph_.nodes.clear();
    graph_.nodes.reserve(nodes.size());
    for (Node& node : nodes) {
      resolve(node);
      visit(node);
      keep(std::move(node));
    }
    finish();
    return changed_;
  }

  // To be called from within `visit`, about the node being visited:

  /// Inserts a node before it, with the type that its op infers, for the same source ops as `for_whom`.
  ValueId insert(const OpDef& op, std::vector<ValueId> inputs, const AttributeValue& attributes, const Node& for_whom);
  ValueId insert_constant(const Tensor& tensor);
  /// Replaces the node by another one with the same output, whose type must be the same: see `inferred`.
  void become(Node& node, const OpDef& op, std::vector<ValueId> inputs, const AttributeValue& attributes);
  /// Makes the node's output a constant and removes the node.
  void become_constant(Node& node, const Tensor& tensor);
  /// All users of the node's output read `with` from now on, which also stands for the node's source ops. The node
  /// stays, but nothing reads it.
  void replace(const Node& node, ValueId with);
  /// Removes the node, which must have no users.
  void drop(Node& node);
  /// The type of an op with these inputs; no value if the op refuses them.
  std::optional<TensorType> inferred(const OpDef& op, std::span<const ValueId> inputs,
                                     const AttributeValue& attributes) const;

 private:
  ValueId resolved(ValueId value) const {
    while (replacement_[value] != value) {
      value = replacement_[value];
    }
    return value;
  }
  ValueId new_value(const TensorType& type);
  void resolve(Node& node);
  void keep(Node&& node);
  void finish();

  static constexpr std::uint32_t kNone = UINT32_MAX;

  Graph& graph_;
  std::vector<ValueId> replacement_;
  std::vector<std::uint32_t> producer_;  ///< index into graph_.nodes by value
  std::vector<std::uint32_t> constant_;  ///< index into graph_.constants by value
  bool changed_ = false;
};

/// Adds the source ops of `from` to `to`'s: `to` now also stands for them.
void merge_provenance(Provenance& to, const Provenance& from);

}  // namespace diptych::graph
