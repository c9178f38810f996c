#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/attributes.h"
#include "framework/core/variable.h"

namespace diptych {
struct OpDef;
}  // namespace diptych

/// The graph IR: SSA, typed, one list of nodes in execution order.
namespace diptych::graph {

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = UINT32_MAX;

/// The origin of a node: the source ops (numbered in program order of the capture) that it stands for, and the module
/// scope and line of the first of them.
struct Provenance {
  std::vector<std::uint32_t> source_ops;
  const char* scope = "";  ///< interned, for example "net.0"
  Location where;
};

struct Graph;

struct Node {
  const OpDef* op;
  AttributeValue attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;  ///< one, unless it has regions
  Provenance provenance;
  // Only for control flow (control_ops.h) and fused ops (fused_op.h). Regions are pure functions of the node's inputs:
  // all their inputs are arguments. They may be shared with other graphs: copy a region to change it.
  std::vector<std::shared_ptr<const Graph>> regions = {};

  /// The first output, which stands for the node.
  ValueId output() const { return outputs.front(); }
  bool is_control() const;
};

enum class InputKind : std::uint8_t {
  argument,  ///< given with each call
  state,     ///< a Variable, read when the call starts
  captured   ///< a tensor that the function closed over; its elements are never folded into the graph
};

std::string_view name_of(InputKind kind);

struct Input {
  ValueId value;
  InputKind kind;
  std::string name;
  Variable variable;  ///< state
  Tensor tensor;      ///< captured
};

/// When the call ends, the state input `input` (an index into Graph::inputs) becomes `value`.
struct Update {
  std::uint32_t input;
  ValueId value;
};

struct Graph {
  std::string name;
  std::vector<TensorType> types;  ///< by ValueId
  std::vector<Input> inputs;
  std::vector<Node> nodes;
  std::vector<ValueId> outputs;
  std::vector<Update> updates;
  /// Tensors computed at compile time (constant folding), each with the value that it replaces.
  std::vector<std::pair<ValueId, Tensor>> constants;

  ValueId new_value(const TensorType& type) {
    types.push_back(type);
    return static_cast<ValueId>(types.size() - 1);
  }
  std::vector<const TensorType*> input_types(const Node& node) const;
};

/// Whether a node, or one in its regions, has an effect besides computing.
bool has_effect(const Node& node);
/// Whether running a node may throw, depending on elements.
bool can_fail(const Node& node);
/// The number of nodes, including those of regions. A fused node is what its region is, and counts no further.
std::size_t count_nodes(const Graph& graph);

/// "graph mlp(%0: f32[64,64] argument "x", ...) { ... }": `parse` restores the same graph, with constants exact to the
/// bit. The elements of captured tensors are not included.
std::string print(const Graph& graph);

/// One line of `print`, without regions and provenance: "%3: f32[64,128] = matmul(%0, %2) {transpose_b=true}".
std::string print_node(const Graph& graph, const Node& node);

/// Parses a text made by `print`. Variables and captured tensors become inputs of their kind without a value. Throws
/// Error with the line number.
Graph parse(std::string_view text);

/// Throws InternalError unless the graph is well-formed: every value defined once and before its use, types as
/// inferred, attributes of the op's type, outputs and updates of existing values, updates of the state's type.
void verify(const Graph& graph);

struct Malformation {
  std::string what;
  ValueId value;  ///< the value concerned
};
/// The malformation for which verify() would throw.
std::optional<Malformation> find_malformation(const Graph& graph);

}  // namespace diptych::graph
