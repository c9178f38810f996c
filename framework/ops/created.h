#pragma once

#include "framework/dispatch/op.h"

namespace diptych::ops {

/// The limit for a tensor made from attributes alone: a typo in a length must give an error, not exhaust the machine.
inline constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

/// The result of an op that takes its shape from attributes. Throws ShapeError for negative and absurd lengths.
inline void infer_created(const InferCall& call, const Shape& shape, DType dtype, TensorType& output) {
  std::int64_t left = kMostBytes / static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t length : shape) {
    if (length < 0) [[unlikely]] {
      call.fail_shape("a length is negative", "");
    }
    if (length > left) [[unlikely]] {
      call.fail_shape("the tensor would be larger than a tebibyte", "check the lengths");
    }
    left /= length > 0 ? length : 1;
  }
  output.dtype = dtype;
  output.shape = shape;
}

}  // namespace diptych::ops
