#pragma once

#include <span>
#include <vector>

#include "framework/graph/ir.h"

namespace diptych::graph {

/// A graph as a function again: its nodes run op by op under the active interpreter, and so do the regions of fused
/// nodes; then its states are assigned.
class GraphFunction {
 public:
  /// `states`, `captured`: of the inputs of these kinds, in their order. Throws Error if they don't fit.
  GraphFunction(const Graph& graph, Variables states, std::vector<Tensor> captured);
  /// Throws Error if the number of arguments or a type is another.
  std::vector<Tensor> operator()(std::span<const Tensor> arguments) const;
  const Variables& states() const { return states_; }

 private:
  Graph body_;  ///< the new states behind the outputs
  std::size_t results_;
  Variables states_;
  std::vector<Tensor> captured_;
};

}  // namespace diptych::graph
