#pragma once

#include <utility>

#include "framework/core/tensor.h"

/// Sorting along an axis (negative: from the end). NaN counts as the largest, 0 and -0 are equal, and of equal elements
/// the one of the lowest index comes first, in either direction. Gradients go through the values.
namespace diptych {

/// The sorted elements, and where each stood: i64.
std::pair<Tensor, Tensor> sort(const Tensor& x, int axis = -1, bool descending = false,
                               Location where = Location::current());
/// Where the sorted elements stand: i64.
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false, Location where = Location::current());
/// The k largest (or smallest) elements, sorted, and where each stands: i64. Throws ShapeError unless
/// 0 <= k <= the length of the axis.
std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, int axis = -1, bool largest = true,
                               Location where = Location::current());

}  // namespace diptych
