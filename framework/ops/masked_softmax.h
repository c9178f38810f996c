#pragma once

#include "framework/core/tensor.h"
#include "framework/ops/row_ops.h"

/// What masked_softmax (attention.h) and attention share.
namespace diptych::ops {

/// Refuses a mask, input `mask` if there is one, that isn't bool or of the scores' type or doesn't broadcast to them.
void check_mask(const InferCall& call, std::size_t mask, const TensorType& scores);

/// scale p (g - sum(g p)) per row: from the gradient g with respect to the result p to that with respect to the scores.
Tensor masked_softmax_backward(const Tensor& gradient, const Tensor& result, const SoftmaxAttributes& attributes);

/// The derivative of masked_softmax_backward with respect to p, along `t` (forward) or against a cotangent `t`
/// (reverse). The two differ in what the inner product is taken with and in what it multiplies: g and p forward, p and
/// g in reverse.
Tensor masked_softmax_backward_by_result(const Tensor& t, const Tensor& g, const Tensor& p, const Tensor& beside,
                                         const Tensor& with, const SoftmaxAttributes& attributes);

}  // namespace diptych::ops
