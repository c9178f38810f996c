#pragma once

#include "framework/dispatch/op.h"

namespace diptych {

/// Runs `op` under the active interpreter (eager, or the graph under capture) and records it on the tape if a gradient
/// is wanted. The single entry point of every public op.
Tensor apply(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where);

template <class... Tensors>
Tensor apply_op(const Op& op, const void* attributes, Location where, const Tensors&... tensors) {
  const std::array<const Tensor*, sizeof...(tensors)> inputs{&tensors...};
  return apply(*op, inputs, attributes, where);
}

/// Only the eager path, even during a capture: for constant folding. No tape.
Tensor apply_eager(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where);

}  // namespace diptych
