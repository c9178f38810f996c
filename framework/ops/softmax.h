#pragma once

#include "framework/core/tensor.h"

namespace diptych {

/// Along one axis; the largest element is subtracted first, so nothing overflows.
Tensor softmax(const Tensor& x, int axis = -1, Location where = Location::current());
Tensor log_softmax(const Tensor& x, int axis = -1, Location where = Location::current());

/// indices: i64[...] -> dtype[..., depth] with one 1 a row. Throws Error (from the kernel) for an index outside [0,
/// depth).
Tensor one_hot(const Tensor& indices, std::int64_t depth, DType dtype = DType::float32,
               Location where = Location::current());

/// logits: float[N, C], labels: i64[N] -> float[]: the mean of -log softmax(logits)[label].
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, Location where = Location::current());

}  // namespace diptych
