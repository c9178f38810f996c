#pragma once

#include <utility>

#include "framework/core/tensor.h"

/// Sorting along an axis (negative: from the end). NaN counts as the largest, 0 and -0 are equal, and of several equal
/// elements the one with the lowest index comes first, in either direction. Gradients flow through the values.
namespace diptych {

/// The sorted elements, and their positions in x: i64.
std::pair<Tensor, Tensor> sort(const Tensor& x, int axis = -1, bool descending = false,
                               Location where = Location::current());
/// The positions in x of the sorted elements: i64.
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false, Location where = Location::current());
/// The k largest (or smallest) elements, sorted, and their positions: i64. Throws ShapeError unless 0 <= k <= the
/// length of the axis.
std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int axis = -1, bool largest = true,
                               Location where = Location::current());

}  // namespace diptych
