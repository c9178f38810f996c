#pragma once

#include <string>

#include "framework/io/onnx/model.h"

/// Which gradients a model has, before anything is computed.
namespace diptych::workloads {

/// The node at which the way from a value to the graph's outputs loses its gradient, because it counts, compares or
/// rounds to integers: `node "q" (QuantizeLinear)`. Empty if another way is left; also if none leads there at all: that
/// gradient is 0.
std::string end_of_gradient(const onnx::Graph& graph, const std::string& value);

/// Whether a way from a value to the graph's outputs is differentiable.
bool has_gradient(const onnx::Graph& graph, const std::string& value);

}  // namespace diptych::workloads
