#pragma once

#include "framework/dispatch/tape.h"

/// Reverse mode: the walk of the tape from the outputs to the inputs.
namespace diptych::autograd {

struct BackwardOptions {
  /// Free saved tensors as soon as they have been used; a second backward pass through them is then an error.
  bool release = false;
  /// Nodes before this serial belong to an outer transform: if the pass meets one, it is recorded for that transform.
  std::uint64_t outer_before = 0;
  /// The walk ends at nodes before this serial: their gradients are collected, but not passed on.
  std::uint64_t boundary = 0;
  /// Targets without influence get undefined tensors instead of zeros.
  bool leaves_undefined = false;
};

struct BackwardResult {
  std::vector<Tensor> gradients;
  bool outer = false;  ///< a node of an outer transform was met, so the results matter to it
};

/// The gradients of sum_i <outputs[i], cotangents[i]> with respect to `targets` (watched tensors, or values on the
/// tape). An undefined cotangent means ones. Targets without influence get zeros, unless the
/// options say otherwise.
BackwardResult gradients(std::span<const Tensor> outputs, std::span<const Tensor> targets,
                         std::span<const Tensor> cotangents, const BackwardOptions& options, Location where);
BackwardResult gradients(std::span<const Tensor> outputs, std::span<const TapeEdge> targets,
                         std::span<const Tensor> cotangents, const BackwardOptions& options, Location where);

/// The values before `boundary` from which `outputs` were computed, each once: those that a function has closed over.
std::vector<TapeEdge> dependencies(std::span<const Tensor> outputs, std::uint64_t boundary);

/// Converts a gradient to the type of its input: sums over the axes along which the input was broadcast, and expands a
/// gradient that a rule returned in a smaller shape.
Tensor fit(const Tensor& gradient, const TensorType& type, Location where);

}  // namespace diptych::autograd
