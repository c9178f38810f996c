#pragma once

#include "framework/core/lengths.h"
#include "framework/dispatch/op.h"

namespace diptych::ops {

/// The limit for a tensor made from attributes alone: a typo in a length must give an error, not exhaust the machine.
inline constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 40U;

/// The result of an op that takes its shape from attributes. Throws ShapeError for negative and absurd lengths.
inline void infer_created(const InferCall& call, const Shape& shape, DType dtype, TensorType& output) {
  output.dtype = dtype;
  output.shape = shape;
  if (const auto bytes = dense_bytes(output); !bytes || *bytes > kMostBytes) [[unlikely]] {
    call.fail_shape(describe_size(output), "check the lengths");
  }
}

}  // namespace diptych::ops
