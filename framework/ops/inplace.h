#pragma once

#include "framework/core/tensor.h"

/// Updates in place, named with a trailing underscore as in PyTorch. Every tensor that shares the storage (views of x,
/// and the tensor of which x is a view) sees the new elements. `value` is broadcast to x's shape and cast to its type;
/// each function returns x.
///
/// Gradients: an update is recorded if gradients flow through x or `value`. If a tensor is updated after an earlier op
/// has saved it for its gradient, the backward pass throws and names both places. A watched tensor itself, and a tensor
/// with views, can't be updated while recording: Error.
///
/// Inside a captured function, tensors that the function made can be updated, and their views see it. Its arguments and
/// the tensors that it closes over can't, because a replay doesn't write to them: CaptureError. Use a Variable for
/// state.
namespace diptych {

Tensor copy_(const Tensor& x, const Tensor& value, Location where = Location::current());
Tensor fill_(const Tensor& x, double value, Location where = Location::current());
Tensor zero_(const Tensor& x, Location where = Location::current());
Tensor add_(const Tensor& x, const Tensor& value, Location where = Location::current());
Tensor sub_(const Tensor& x, const Tensor& value, Location where = Location::current());
Tensor mul_(const Tensor& x, const Tensor& value, Location where = Location::current());
Tensor div_(const Tensor& x, const Tensor& value, Location where = Location::current());

/// The number of updates in place to the storage of `x` so far.
std::uint32_t version_of(const Tensor& x);

}  // namespace diptych
