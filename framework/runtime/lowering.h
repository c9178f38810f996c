#pragma once

#include <vector>

#include "framework/graph/ir.h"

/// From a graph to a list of kernel calls on buffers: views disappear, layouts are fixed, buffers get their class.
namespace diptych::runtime {

enum class BufferClass : std::uint8_t { argument, state, captured, constant, output, temporary };

struct Buffer {
  BufferClass kind;
  std::uint32_t index = 0;  ///< which argument, state input, captured input, constant or output
  std::size_t bytes = 0;
  std::uint32_t first = 0;  ///< the instruction that writes it first
  std::uint32_t last = 0;   ///< the last instruction that touches it
};

/// Where the elements of a value are.
struct Place {
  std::uint32_t buffer = 0;
  std::int64_t offset = 0;  ///< bytes
  TensorType type;
  Strides strides;
  bool contiguous = true;
};

struct LoweredNode {
  const OpDef* op;
  AttributeValue attributes;
  std::vector<Place> inputs;
  Place output;
  std::uint64_t source_op = 0;  ///< for traces: the first source op, counted from 1
  bool can_fail = false;        ///< may throw, depending on elements
  // Of control flow only.
  std::vector<Place> more_outputs = {};
  std::vector<std::shared_ptr<const graph::Graph>> regions = {};
  Location where = {};
};

struct Lowered {
  std::vector<Buffer> buffers;
  std::vector<LoweredNode> nodes;
};

struct LoweringOptions {
  bool in_place = true;  ///< let elementwise ops write over an input that dies
};

/// The strides of a control-flow node's inputs are those of its regions' inputs, except that what a loop carries or
/// reads by rows is dense. `argument_strides`: one for each argument. States are dense; captured tensors have their own
/// strides.
Lowered lower(const graph::Graph& graph, std::span<const Strides> argument_strides, const LoweringOptions& options);

}  // namespace diptych::runtime
