#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "framework/graph/ir.h"

/// Nodes of a graph as one fused node (graph/fused_op.h).
namespace diptych::passes {

/// What the nodes, in the order given, read from others, in the order of reading.
std::vector<graph::ValueId> inputs_of(const graph::Graph& graph, std::span<const std::uint32_t> nodes);

/// The node that stands for them: its outputs are those of their results that are in `kept`.
graph::Node fused_node(const graph::Graph& graph, std::span<const std::uint32_t> nodes,
                       const std::set<graph::ValueId>& kept);

}  // namespace diptych::passes
