#pragma once

#include "framework/core/tensor.h"

namespace diptych::nn {

/// The mean squared difference of two tensors of one shape.
Tensor mse_loss(const Tensor& prediction, const Tensor& target, Location where = Location::current());
/// logits: [N, classes], labels: i64[N].
Tensor cross_entropy_loss(const Tensor& logits, const Tensor& labels, Location where = Location::current());

}  // namespace diptych::nn
