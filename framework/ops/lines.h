#pragma once

#include "framework/ops/axis_attributes.h"
#include "framework/ops/define.h"

/// Shared by the files whose ops work along one axis.
namespace diptych::ops {

/// The axis; throws if the first input doesn't have it.
inline int checked_axis(const InferCall& call, std::int64_t axis) {
  if (axis < 0 || axis >= call.shape(0).rank()) {
    call.fail_shape("the axis is out of range", "it counts from 0 and is below the number of axes");
  }
  return static_cast<int>(axis);
}

/// A dense tensor as [outer, length, inner] around one axis.
struct Lines {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;

  Lines(const Shape& shape, std::int64_t axis) : length(shape[static_cast<int>(axis)]) {
    for (int i = 0; i < shape.rank(); ++i) {
      (i < axis ? outer : inner) *= i == axis ? 1 : shape[i];
    }
  }
};

}  // namespace diptych::ops
