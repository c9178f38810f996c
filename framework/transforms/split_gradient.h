#pragma once

#include "framework/graph/ir.h"

/// A function and its gradient as two graphs, cut from one:
///
///   inputs ──┬── forward ──┬── results               the forward graph, whose outputs are the results and
///            │             └── saved ──┐             what the backward graph reads of it
///            └──────────── backward ───┴── gradients the backward graph, which recomputes what is cheap
///   cotangents ──┘
///
/// Exact: both have the nodes of the one graph, on the same values.
namespace diptych::graph {

struct SplitGradient {
  /// Arguments: the function's inputs. Outputs: its results, then what is saved.
  Graph forward;
  /// Arguments: the function's inputs, what is saved, and the cotangents. Outputs: the gradients.
  Graph backward;
  std::size_t saved_bytes = 0;
};

/// Cuts `joint`, whose arguments are `inputs` inputs and then cotangents, and whose outputs are `results` results and
/// then gradients, and which updates nothing. Effects that need no cotangent are the forward graph's. The cut is the
/// one that saves the fewest bytes, where inputs are at hand anyway and elementwise ops of few operations an element,
/// and views, may be computed again: a minimum cut, as AOTAutograd's partitioner makes.
SplitGradient split_gradient(const Graph& joint, std::size_t inputs, std::size_t results);

/// What of a backward graph gives `count` of its gradients, from the `first` one on. Of its arguments, the cotangents
/// are those from `cotangents` on; those that aren't `given` are no arguments of it. Nothing of it has an effect.
Graph part_of_backward(const Graph& backward, std::size_t first, std::size_t count, std::size_t cotangents,
                       const std::vector<bool>& given);

}  // namespace diptych::graph
