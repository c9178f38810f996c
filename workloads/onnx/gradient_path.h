#pragma once

#include <set>
#include <string>

#include "framework/io/onnx/model.h"

/// Which gradients a model has, before anything is computed.
namespace diptych::workloads {

/// The node at which the way from a value to the graph's outputs loses its gradient, because it counts, compares or
/// rounds to integers: `node "q" (QuantizeLinear)`. Empty if another way is left; also if none leads there at all: that
/// gradient is 0.
std::string end_of_gradient(const onnx::Graph& graph, const std::string& value);

/// The values from which a way to the graph's outputs is differentiable.
class GradientSources {
 public:
  explicit GradientSources(const onnx::Graph& graph);
  bool contains(const std::string& value) const { return any_ || values_.contains(value); }

 private:
  std::set<std::string> values_;
  bool any_ = false;  ///< a body, which may read any value, is on such a way
};

}  // namespace diptych::workloads
