#pragma once

#include "framework/core/tensor.h"

/// Updates in place, named as in PyTorch with a trailing underscore. Every tensor that shares the storage (views, and
/// what x is a view of) sees the new elements. `value` is broadcast to x's shape and cast to its type; each function
/// returns x.
///
/// Gradients: an update is recorded if gradients flow through x or `value`. A tensor that an earlier op had saved for
/// its gradient, and that was updated since, makes the backward pass throw with both places. A watched tensor itself,
/// and a tensor with views, can't be updated while recording: Error.
///
/// Inside a captured function, tensors that it made can be updated, and their views see it; its arguments and the
/// tensors that it closes over can't, because a replay doesn't write to them: CaptureError. Use a Variable for state.
namespace diptych {

Tensor copy_(const Tensor& x, const Tensor& value, Location where = Location::current());
Tensor fill_(const Tensor& x, double value, Location where = Location::current());
Tensor zero_(const Tensor& x, Location where = Location::current());
Tensor add_(const Tensor& x, const Tensor& value, Location where = Location::current());
Tensor sub_(const Tensor& x, const Tensor& value, Location where = Location::current());
Tensor mul_(const Tensor& x, const Tensor& value, Location where = Location::current());
Tensor div_(const Tensor& x, const Tensor& value, Location where = Location::current());

/// How many updates in place the storage of `x` has seen.
std::uint32_t version_of(const Tensor& x);

}  // namespace diptych
