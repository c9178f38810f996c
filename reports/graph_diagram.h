#pragma once

#include "framework/graph/ir.h"
#include "reports/diagram.h"

namespace diptych::reports {

/// A picture of a graph: nodes with their attributes, constants folded into their users, module scopes as clusters,
/// edges with their types. With `before` given, nodes that it doesn't have as they are here are marked as added.
Diagram graph_diagram(const graph::Graph& graph, const graph::Graph* before = nullptr);

}  // namespace diptych::reports
