#pragma once

#include "framework/dispatch/apply.h"

/// Arithmetic on types for storage: casts to compute_type(), the op, and a cast of its result back, each of them an op
/// of its own. So eager and graph agree, gradients follow, and no kernel knows of these types. Integers wrap around.
namespace diptych::ops {

/// In the type that its elements are computed with in; itself, unless it is of a type for storage.
Tensor computing(const Tensor& x, Location where);
/// Computed from `like` in its compute type: back in the type of `like`. Results of other types stay (comparisons).
Tensor stored(const Tensor& result, DType like, Location where);

/// An op of one input, or of two of the same type for storage. u64 is divided and compared as such. Throws DTypeError
/// for an op that has no meaning for the i64 of the same bits.
Tensor apply_stored(const Op& op, const Tensor& x, Location where);
Tensor apply_stored(const Op& op, const Tensor& a, const Tensor& b, Location where);

/// In a type that ops compare in the same order: of u64 ordered(), else computing().
Tensor comparable(const Tensor& x, Location where);

/// u64 as the i64 in the same order, 0 as the least one; and back.
Tensor ordered(const Tensor& x, Location where);
Tensor from_ordered(const Tensor& x, Location where);

}  // namespace diptych::ops
