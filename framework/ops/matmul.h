#pragma once

#include "framework/core/tensor.h"

namespace diptych {

/// x: [M, K], y: [K, N] -> [M, N], f32 or f64. Transposed views cost nothing.
Tensor matmul(const Tensor& x, const Tensor& y, Location where = Location::current());

}  // namespace diptych
