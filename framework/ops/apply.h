#pragma once

#include "framework/ops/op.h"

namespace diptych {

/// Runs `op` under the active interpreter: eager, or the graph under capture; records on the tape where a gradient is
/// wanted. The one entrance for every public op.
Tensor apply(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where);

template <class... Tensors>
Tensor apply_op(const Op& op, const void* attributes, Location where, const Tensors&... tensors) {
  const std::array<const Tensor*, sizeof...(tensors)> inputs{&tensors...};
  return apply(*op, inputs, attributes, where);
}

/// The eager path alone, whatever is captured: for constant folding. No tape.
Tensor apply_eager(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, Location where);

}  // namespace diptych
