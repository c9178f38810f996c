#pragma once

#include <vector>

#include "framework/diptych.h"
#include "tests/support/message_of.h"

namespace diptych::testing {

using Index = std::vector<std::int64_t>;

/// Elements in double, read by index: what definitions are written with.
struct ReferenceArray {
  Shape shape;
  std::vector<double> values;

  explicit ReferenceArray(const Tensor& tensor) : shape(tensor.shape()), values(tensor.to_vector<double>()) {}
  double operator[](const Index& index) const {
    std::int64_t offset = 0;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      offset = offset * shape[axis] + index[static_cast<std::size_t>(axis)];
    }
    return values[static_cast<std::size_t>(offset)];
  }
};

/// fn(index) for every index of `shape`, row-major.
template <class Fn>
std::vector<double> by_index(const Shape& shape, const Fn& fn) {
  std::vector<double> values;
  Index index(static_cast<std::size_t>(shape.rank()), 0);
  for (std::int64_t i = 0; i < shape.product(); ++i) {
    std::int64_t rest = i;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      index[static_cast<std::size_t>(axis)] = rest % shape[axis];
      rest /= shape[axis];
    }
    values.push_back(fn(index));
  }
  return values;
}

/// Elements 0, 1, 2, ... in a dense tensor.
inline Tensor counting(const Shape& shape, DType dtype = DType::float32) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < shape.product(); ++i) {
    values.push_back(i);
  }
  return cast(Tensor::from(values, shape), dtype);
}

}  // namespace diptych::testing
