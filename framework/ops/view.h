#pragma once

#include "framework/core/tensor.h"

/// Views share their input's storage. Axes may be negative (from the end).
namespace diptych {

/// One length may be -1. Copies only where the strides leave no other way.
Tensor reshape(const Tensor& x, const Shape& shape, Location where = Location::current());
/// From `start_axis` on, one axis.
Tensor flatten(const Tensor& x, int start_axis = 0, Location where = Location::current());
/// Axis i of the result is axis axes[i] of x.
Tensor permute(const Tensor& x, const Axes& axes, Location where = Location::current());
/// Swaps two axes.
Tensor transpose(const Tensor& x, int axis_a = -2, int axis_b = -1, Location where = Location::current());
/// Repeats axes of length 1 and adds leading ones, without copying.
Tensor expand(const Tensor& x, const Shape& shape, Location where = Location::current());
/// Elements start, start + step, ... below stop along one axis; as Python slices, step > 0.
Tensor slice(const Tensor& x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1,
             Location where = Location::current());
Tensor squeeze(const Tensor& x, int axis, Location where = Location::current());
Tensor unsqueeze(const Tensor& x, int axis, Location where = Location::current());

/// The axis as a number in [0, rank). Throws ShapeError.
int normalise_axis(std::int64_t axis, int rank, const char* op, Location where);

}  // namespace diptych
