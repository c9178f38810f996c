#pragma once

#include "framework/dispatch/op.h"

/// Shared by the public functions of binary elementwise ops.
namespace diptych::ops {

/// Applies the op to a and b, each cast to their promoted type.
Tensor apply_promoted(const Op& op, const Tensor& a, const Tensor& b, Location where);

}  // namespace diptych::ops
