#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/io/onnx/import.h"

/// Gradients of a model's outputs by its inputs and weights.
namespace diptych::workloads {

using TensorFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

/// From a call's inputs, so many, and cotangents of the outputs with these numbers, to the gradients of
/// sum(output * cotangent) over all floating-point outputs, by the inputs at `places`. Others may have a cotangent,
/// which says nothing. The function throws Error for cotangents that don't fit or are missing, and for a model without
/// floating-point outputs. `with_outputs`: these outputs come before the gradients, or a graph would leave out what
/// only they need.
TensorFunction gradient_function(std::shared_ptr<onnx::ImportedModel> model, std::size_t inputs,
                                 std::vector<std::size_t> places, std::vector<std::size_t> numbers,
                                 bool with_outputs = false);

/// What a backward pass of the whole model computes.
struct GradientsOf {
  std::vector<std::string> inputs;   ///< floating-point ones
  std::vector<std::string> weights;  ///< onnx::weights()
};
/// Only those from which a way to the outputs is differentiable. Throws Error, which names a node, if there is none.
GradientsOf gradients_of(const onnx::Model& model);

}  // namespace diptych::workloads
