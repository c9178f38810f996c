#pragma once

#include <string>
#include <string_view>

#include "workloads/workload.h"

/// A graph from a file as a workload: the text that `diptych graph` writes, that a failing test prints, or that
/// somebody has typed. Its name says all that a measuring process has to know:
///   graph.txt             random inputs, states and captured tensors: normal, or 0 and 1 where they are integers
///   graph.txt:special     one element in eight is a zero of either sign, an infinity, NaN, or as large or small as can
///   be
/// Eager runs its nodes op by op, and a fused node's region likewise.
namespace diptych::workloads {

/// Whether the name refers to a graph's file.
bool is_graph_name(std::string_view name);

/// The workload of that name, read once. Throws FileError for a file that can't be read, or is no graph.
const Workload& graph_workload(const std::string& name);

}  // namespace diptych::workloads
