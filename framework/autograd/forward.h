#pragma once

#include "framework/dispatch/tape.h"

/// Forward mode: the walk of the tape from the inputs to the outputs.
namespace diptych::autograd {

struct ForwardResult {
  std::vector<Tensor> tangents;  ///< one per output; undefined: zero
  bool outer = false;            ///< as in BackwardResult
};
/// Forward mode: the tangents of `outputs` for the `tangents` of `inputs` (watched tensors), by one sweep over the tape
/// from the inputs to the outputs. The tape must have been recorded under SaveAll.
ForwardResult push_forward(std::span<const Tensor> inputs, std::span<const Tensor> tangents,
                           std::span<const Tensor> outputs, std::uint64_t outer_before, Location where);

}  // namespace diptych::autograd
