#pragma once

#include <optional>

#include "framework/dispatch/op.h"

/// Values as rows: `rows` equal parts of a tensor's elements, in row-major order. The width of a row is that of the
/// last axis, or 1.
namespace diptych::codegen {

/// The width of each of `rows` rows; none if a tensor of this shape doesn't fall into them, or is empty.
inline std::optional<std::int64_t> width_in(std::int64_t rows, const Shape& shape) {
  const std::int64_t elements = shape.product();
  if (elements == 0 || rows == 0 || elements % rows != 0) {
    return std::nullopt;
  }
  const std::int64_t width = elements / rows;
  return width == 1 || (shape.rank() > 0 && shape.back() == width) ? std::optional(width) : std::nullopt;
}

/// Whether an elementwise op with this result reads from each row of the operand for the same row of the result.
inline bool is_read_by_rows(const Shape& operand, const Shape& result) {
  if (operand.rank() != result.rank()) {
    return false;
  }
  for (int axis = 0; axis < result.rank(); ++axis) {
    if (operand[axis] != result[axis] && !(axis == result.rank() - 1 && operand[axis] == 1)) {
      return false;
    }
  }
  return true;
}

/// The shape of `count` of the `rows` rows, with the same rank. `count` is 1 if the shape has no axis for it.
inline Shape some_rows(const Shape& shape, std::int64_t rows, std::int64_t count) {
  Shape result = shape;
  const bool has_columns = shape.rank() > 0 && shape.product() == rows * shape.back();
  const int leading = shape.rank() - (has_columns ? 1 : 0);
  for (int axis = 0; axis < leading; ++axis) {
    result[axis] = axis == leading - 1 ? count : 1;
  }
  return result;
}

}  // namespace diptych::codegen
