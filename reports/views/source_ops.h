#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "framework/graph/ir.h"
#include "reports/analysis/aligned_profile.h"

/// What a compilation made of each source op, from the graphs between its passes.
namespace diptych::reports {

/// The ops of a graph as captured, with those in regions, in program order.
std::vector<SourceOp> source_ops_of(const graph::Graph& captured);

/// Whether ops may be applied more than once a call, or not at all: control flow.
bool has_control_flow(const graph::Graph& graph);

struct StageGraph {
  std::string pass;  ///< that produced it
  const graph::Graph* graph;
};

struct CompiledOps {
  std::map<std::uint64_t, OpFate> fates;  ///< of every source op
  /// By the id of an instruction in traces and the name of its op: the source ops that its time is for.
  std::map<std::pair<std::uint64_t, std::string>, std::vector<std::uint64_t>> kernels;
  /// By the same: the work of each of these instructions.
  std::map<std::pair<std::uint64_t, std::string>, std::vector<OpWork>> work;

  /// Nothing for an instruction that no source op stands behind.
  std::vector<std::uint64_t> source_ops_of(std::uint64_t traced, const std::string& op) const;
  std::vector<OpWork> work_of(std::uint64_t traced, const std::string& op) const;
};

/// The first stage is the graph as captured, the last one what runs.
CompiledOps compiled_ops(std::span<const StageGraph> stages);

/// The concats that have no instruction (runtime/placed_parts.h), as fates. `computed`: the values that instructions
/// make.
void note_placed_concats(const graph::Graph& graph, std::span<const graph::ValueId> computed, CompiledOps& ops);

}  // namespace diptych::reports
