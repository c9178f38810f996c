#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <vector>

#include "framework/dispatch/op.h"
#include "framework/graph/ir.h"

/// A node that stands for several ops, which run as one kernel, tile by tile (codegen/tile_program.h):
///
///   outputs = fused(inputs...)       region: inputs -> outputs
///
/// The region has either elementwise ops alone, whose results have one shape, to which the inputs broadcast; or its
/// values fall into the same rows (codegen/rows.h), with at least one op that processes or reduces them. Inside such a
/// region `reshape` and `expand` only say that a row is one element or a repeated one: they cost nothing there. Rows
/// may be the channels of [batch, channels, ...]: then elementwise ops have such results, or one element a channel.
///
/// A region of elementwise ops may begin with a matrix product or a convolution, whose results they process part by
/// part, as its kernel finishes them (OpDef::epilogue_axes):
///
///   %3 = fused(%x, %w, %b, %y) [ %4 = linear(%x, %w, %b)   %5 = gelu(%4)   %6 = add(%5, %y) ]
///
/// A node may have several regions, without a contraction, each for inputs and outputs of its own, in order: kernels
/// that know nothing of one another and are dispatched as one.
///
///   %6, %7 = fused(%w, %g, %r, %b, %h, %r) [ descend(%w, %g, %r) ], [ descend(%b, %h, %r) ]
namespace diptych::graph {

const OpDef& fused_op();

/// The rows of an op that processes or reduces them (OpDef::rows_of).
Rows rows_of(const Graph& graph, const Node& node);
/// The rows of a region: those of the first op that has some; none: it's elementwise.
RowLayout rows_of(const Graph& region);
/// Whether the node is a view that a region of such rows may have; none of an elementwise one.
bool is_row_view(const Graph& graph, const Node& node, const RowLayout& rows);
/// Whether a region may begin with the node.
bool takes_epilogue(const Graph& graph, const Node& node);
/// The node of this kind that a region begins with; null: there is none.
const Node* contraction_of(const Graph& region);

/// Why a region with such rows (none: an elementwise one) may not have this node; null if it may. Bit i of `inside`:
/// its input i is a result of the region.
const char* why_not_in_region(const Graph& graph, const Node& node, const RowLayout& rows, std::uint32_t inside);
/// The same; `is_inside`: whether a value is a result of the region.
template <std::predicate<ValueId> IsInside>
const char* why_not_in_region(const Graph& graph, const Node& node, const RowLayout& rows, const IsInside& is_inside) {
  std::uint32_t inside = 0;
  for (std::size_t i = 0; i < node.inputs.size() && i < 32; ++i) {
    inside |= static_cast<std::uint32_t>(is_inside(node.inputs[i])) << i;
  }
  return why_not_in_region(graph, node, rows, inside);
}

/// A region of a fused node, and where its inputs and outputs begin among those of the node.
struct FusedPart {
  const Graph& region;
  std::size_t first_input = 0, first_output = 0;

  bool reads(std::size_t input) const { return input - first_input < region.inputs.size(); }
  bool writes(std::size_t output) const { return output - first_output < region.outputs.size(); }
};
std::vector<FusedPart> parts_of(std::span<const std::shared_ptr<const Graph>> regions);

/// The types of a fused node's outputs. Throws Error if inputs and region don't fit each other.
std::vector<TensorType> fused_output_types(const Node& node, std::span<const TensorType* const> inputs);

/// Whether output `output` may be written to the place of input `input`, a dense tensor of its type: a tile reads no
/// more of the input than it writes of the output, and before.
bool may_overwrite(const Graph& region, std::size_t input, std::size_t output);
/// Whether the result of the region's contraction may lie where output `output` is written: it has its type, and is
/// not read later.
bool may_hold_contraction(const Graph& region, std::size_t output);

}  // namespace diptych::graph
