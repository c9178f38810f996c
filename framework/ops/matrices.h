#pragma once

#include "framework/core/dims.h"

/// Shapes of stacks of matrices: [..., rows, columns].
namespace diptych::ops {

inline Shape batch_of(const Shape& shape) {
  return Shape(std::span(shape.begin(), static_cast<std::size_t>(shape.rank() - 2)));
}
inline std::int64_t rows_of(const Shape& shape) { return shape[shape.rank() - 2]; }

}  // namespace diptych::ops
