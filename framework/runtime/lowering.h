#pragma once

#include <vector>

#include "framework/graph/ir.h"

/// Lowers a graph to a list of kernel calls on buffers: views disappear, layouts are fixed, buffers get a class.
namespace diptych::runtime {

enum class BufferClass : std::uint8_t { argument, state, captured, constant, output, temporary };

struct Buffer {
  BufferClass kind;
  std::uint32_t index = 0;  ///< which argument, state input, captured input, constant or output
  std::size_t bytes = 0;
  std::uint32_t first = 0;  ///< the instruction that writes it first
  std::uint32_t last = 0;   ///< the last instruction that touches it
};

/// The location of a value's elements.
struct Place {
  std::uint32_t buffer = 0;
  std::int64_t offset = 0;  ///< in bytes
  TensorType type;
  Strides strides;
  bool contiguous = true;
};

struct LoweredNode {
  const OpDef* op;
  AttributeValue attributes;
  std::vector<Place> inputs;
  std::vector<Place> outputs;   ///< one, unless it has regions; then that of a contraction whose result stays inside
  std::uint64_t source_op = 0;  ///< for traces: the first source op, counted from 1
  graph::ValueId value = graph::kNoValue;  ///< the first that its graph knows as its result
  bool can_fail = false;                   ///< may throw, depending on elements
  // Only for control flow and fused ops.
  std::vector<std::shared_ptr<const graph::Graph>> regions = {};
  Location where = {};
  const char* scope = "";  ///< graph::Provenance

  Place& output() { return outputs.front(); }
  const Place& output() const { return outputs.front(); }
};

struct Lowered {
  std::vector<Buffer> buffers;
  std::vector<LoweredNode> nodes;
};

struct LoweringOptions {
  bool in_place = true;  ///< let elementwise ops overwrite an input that dies
};

/// The strides of a control-flow node's inputs are those of its regions' inputs, except that values that a loop carries
/// or reads row by row are dense. `argument_strides`: one for each argument. States are dense; captured tensors keep
/// their own strides.
Lowered lower(const graph::Graph& graph, std::span<const Strides> argument_strides, const LoweringOptions& options);

}  // namespace diptych::runtime
