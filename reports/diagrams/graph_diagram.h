#pragma once

#include <map>
#include <string>

#include "framework/graph/ir.h"
#include "reports/diagrams/diagram.h"

namespace diptych::reports {

/// A picture of a graph: nodes with their attributes, constants folded into their users, module scopes as clusters,
/// edges with their types. If `before` is given, nodes that it lacks or has in another form are marked as added.
Diagram graph_diagram(const graph::Graph& graph, const graph::Graph* before = nullptr);

/// The values that pictures write into the nodes that read them: "0.5", "const f32[3]".
std::map<graph::ValueId, std::string> constant_texts(const graph::Graph& graph);

}  // namespace diptych::reports
