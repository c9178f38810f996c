#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "framework/core/dims.h"
#include "framework/core/dtype.h"

/// What eager computes for each result of each op.
namespace diptych {

/// Sets the row-major strides of a dense tensor, and returns the number of its elements.
inline std::int64_t set_contiguous_strides(const Shape& shape, Strides& strides) {
  strides = shape;
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return step;
}

namespace detail {
inline constexpr std::array<std::uint8_t, kDTypeCount> kSizes = [] {
  std::array<std::uint8_t, kDTypeCount> sizes{};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = static_cast<std::uint8_t>(size_of(static_cast<DType>(i)));
  }
  return sizes;
}();
}  // namespace detail

/// size_of(), whose own table GCC 12 builds on the stack in each call that isn't constant.
inline std::size_t size_from_table(DType dtype) { return detail::kSizes[static_cast<std::size_t>(dtype)]; }

}  // namespace diptych
