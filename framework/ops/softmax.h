#pragma once

#include "framework/core/tensor.h"

namespace diptych {

/// Softmax along one axis; the largest element is subtracted first, so nothing overflows. NaN if all elements are -inf.
Tensor softmax(const Tensor& x, int axis = -1, Location where = Location::current());
Tensor log_softmax(const Tensor& x, int axis = -1, Location where = Location::current());

/// The gradient of softmax along the last axis, where y is its result: y * (dy - sum(dy * y)).
Tensor softmax_backward(const Tensor& dy, const Tensor& y, Location where = Location::current());
/// The gradient of log_softmax along the last axis, where y is its result: dy - exp(y) * sum(dy).
Tensor log_softmax_backward(const Tensor& dy, const Tensor& y, Location where = Location::current());

}  // namespace diptych
