#pragma once

#include <vector>

#include "framework/core/tensor.h"

/// Views share their input's storage. Axes may be negative (from the end). Strides are never negative, because kernels
/// and BLAS rely on it; so ops that reverse elements (flip, slices with a negative step) copy.
namespace diptych {

/// One length may be -1. Copies only if the strides allow no view.
Tensor reshape(const Tensor& x, const Shape& shape, Location where = Location::current());
/// Merges axes `start_axis` to `end_axis`, both included, into one. A scalar becomes [1].
Tensor flatten(const Tensor& x, int start_axis = 0, int end_axis = -1, Location where = Location::current());
/// Axis i of the result is axis axes[i] of x.
Tensor permute(const Tensor& x, const Axes& axes, Location where = Location::current());
/// Swaps two axes.
Tensor transpose(const Tensor& x, int axis_a = -2, int axis_b = -1, Location where = Location::current());
/// Repeats axes of length 1 and adds leading ones, without copying.
Tensor expand(const Tensor& x, const Shape& shape, Location where = Location::current());
/// Drops one axis, which must have length 1, or all axes of length 1.
Tensor squeeze(const Tensor& x, int axis, Location where = Location::current());
Tensor squeeze(const Tensor& x, Location where = Location::current());
Tensor unsqueeze(const Tensor& x, int axis, Location where = Location::current());

/// Elements start, start + step, ... before stop along one axis, like Python's x[start:stop:step]: negative indices
/// count from the end, and the range is clipped. A negative step goes backwards (and copies); then a `stop` below
/// -length includes everything down to the first element. Throws ShapeError for step 0.
Tensor slice(const Tensor& x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1,
             Location where = Location::current());
/// Element `index` of an axis, which is dropped. Throws ShapeError if it is out of range.
Tensor select(const Tensor& x, int axis, std::int64_t index, Location where = Location::current());
/// Pieces of `size` along an axis; the last one may be shorter.
std::vector<Tensor> split(const Tensor& x, std::int64_t size, int axis = 0, Location where = Location::current());
/// Pieces of these sizes, which must add up to the length of the axis.
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis = 0,
                          Location where = Location::current());
/// At most `chunks` pieces of equal size (the last one may be shorter), like PyTorch's chunk.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int axis = 0, Location where = Location::current());
/// The slices at every index of an axis, which is dropped.
std::vector<Tensor> unbind(const Tensor& x, int axis = 0, Location where = Location::current());

/// The axis as a number in [0, rank). Throws ShapeError.
int normalise_axis(std::int64_t axis, int rank, const char* op, Location where);

}  // namespace diptych
