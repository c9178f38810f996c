#pragma once

#include <optional>

#include "framework/graph/ir.h"
#include "workloads/workload.h"

/// What a call has to compute, whoever computes it: known before anything is timed, and the same on every machine.
namespace diptych::workloads {

/// A step of the program as a graph, without running it. Nothing if it can't be captured, because it looks at elements.
std::optional<graph::Graph> captured(Program& program, const std::string& name);

/// Seconds of a call on a nominal machine, which does 50 billion operations and moves 10 billion bytes a second: within
/// a factor of five of what a core takes today, if the call isn't all dispatch. Control flow counts for nothing.
double nominal_seconds(const graph::Graph& graph);

/// Operations that no execution of a call can do without, of a graph as it was captured: what depends on its arguments
/// after the passes, and of elementwise functions one for each element, however they are computed. Control flow counts
/// for nothing.
double least_operations(graph::Graph graph);

}  // namespace diptych::workloads
