#pragma once

#include <optional>

#include "framework/dispatch/op.h"
#include "framework/graph/ir.h"

namespace diptych::graph {

/// The work of one run of a node, by the ops' cost functions. Results that a fused kernel keeps to itself stay in the
/// cache: it moves only what it reads and what it returns. Nothing for control flow: how often its regions run isn't
/// known ahead.
std::optional<Cost> work_of(const Graph& graph, const Node& node);

}  // namespace diptych::graph
