#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "framework/graph/ir.h"

/// Passes over the graph: one a file; pipeline.cpp is the list, in order.
namespace diptych::passes {

struct Pass {
  const char* name;  ///< switches it off: PipelineOptions::disabled
  const char* doc;
  /// True if the graph changed.
  bool (*run)(graph::Graph& graph);
};

/// The compiler's table of contents.
std::span<const Pass> pipeline();

/// Names that PipelineOptions::disabled takes besides the passes': steps of the lowering.
inline constexpr const char* kInPlace = "in-place";
inline constexpr const char* kMemoryPlan = "memory-plan";

struct PipelineOptions {
  std::set<std::string> disabled;
  /// Called with the graph as captured ("captured") and after each pass; `changed` is false where a pass did nothing.
  std::function<void(const std::string& stage, const graph::Graph& graph, bool changed)> observe;

  /// Every pass and step off: the captured graph as it is.
  static PipelineOptions none();
};

struct PassRecord {
  std::string name;
  double seconds = 0;
  std::size_t nodes_before = 0;
  std::size_t nodes_after = 0;
  bool changed = false;
};

/// Runs the pipeline; verifies the graph after each pass in debug builds, and at the end always. Throws Error if
/// `disabled` names no pass.
std::vector<PassRecord> run_pipeline(graph::Graph& graph, const PipelineOptions& options);

bool fold_constants(graph::Graph& graph);
bool simplify(graph::Graph& graph);
bool eliminate_common_subexpressions(graph::Graph& graph);
bool eliminate_dead_code(graph::Graph& graph);

/// Replaces uses of values: `replacement[v]` is what stands for v. Follows chains.
void replace_uses(graph::Graph& graph, std::vector<graph::ValueId>& replacement);

/// [0, 1, 2, ...]: every value stands for itself.
std::vector<graph::ValueId> identity_replacement(const graph::Graph& graph);

/// Adds the source ops of `from` to `to`'s: `to` now also stands for them.
void merge_provenance(graph::Provenance& to, const graph::Provenance& from);

}  // namespace diptych::passes
