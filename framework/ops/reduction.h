#pragma once

#include "framework/core/tensor.h"

/// Reductions over axes (negative: from the end; none: all of them). Their order of operations is fixed, see
/// kernels/reduction.h.
namespace diptych {

/// Integers and bool are summed as i64.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// Integers and bool as f32.
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// NaN if any element is; throws ShapeError where there is no element to take.
Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdims = false, Location where = Location::current());
/// i64: the first index of the largest element along one axis; NaN counts as largest.
Tensor argmax(const Tensor& x, int axis = -1, Location where = Location::current());

}  // namespace diptych
