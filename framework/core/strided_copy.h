#pragma once

#include <cstddef>

#include "framework/core/dims.h"

namespace diptych::kernels {

/// to[i] = from[i] for every index i of `shape`, for elements of `size` bytes (1, 2, 4 or 8). Strides are in elements
/// and may be negative; 0 in `from_strides` repeats an element. The two must not overlap.
void strided_copy(const Shape& shape, std::size_t size, const void* from, const Strides& from_strides, void* to,
                  const Strides& to_strides);

}  // namespace diptych::kernels
