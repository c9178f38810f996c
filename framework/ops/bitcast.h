#pragma once

#include "framework/core/tensor.h"

namespace diptych {

/// The bits of each element as one of another type of the same size: f32 and i32, bf16 and u16. No gradient. Throws
/// DTypeError for types of other sizes, and for bool as the result, which not all bits are.
Tensor bitcast(const Tensor& x, DType dtype, Location where = Location::current());

}  // namespace diptych
