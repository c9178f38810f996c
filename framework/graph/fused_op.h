#pragma once

#include "framework/graph/ir.h"

/// A node that stands for several elementwise ops, which run as one kernel, tile by tile (codegen/tile_program.h):
///
///   outputs = fused(inputs...)       region: inputs -> outputs
///
/// All results in the region have one shape, to which the inputs broadcast.
namespace diptych::graph {

const OpDef& fused_op();

/// Whether a region of a fused node may have this node.
bool is_fusable(const Graph& graph, const Node& node);

/// The types of a fused node's outputs. Throws Error if inputs and region don't fit each other.
std::vector<TensorType> fused_output_types(const Node& node, std::span<const TensorType* const> inputs);

/// Whether no node of the region reads input `input` after the one that makes output `output`.
bool is_read_before(const Graph& region, std::size_t input, std::size_t output);

}  // namespace diptych::graph
