#pragma once

#include "framework/dispatch/op.h"

/// Shared by the public functions of binary elementwise ops.
namespace diptych::ops {

/// Floating-point operations of pow for one element, if the exponent is known.
double flops_of_pow(double exponent);

/// Applies the op to a and b, each cast to their promoted type.
Tensor apply_promoted(const Op& op, const Tensor& a, const Tensor& b, Location where);

}  // namespace diptych::ops
