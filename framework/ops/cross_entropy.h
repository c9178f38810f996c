#pragma once

#include <limits>

#include "framework/core/tensor.h"

namespace diptych::ops {

inline constexpr std::int64_t kIgnoreNothing = std::numeric_limits<std::int64_t>::min();

/// logits: float[N, C], labels: i64[N] -> float[N]: the cross entropy of each row; 0 where the label is `ignore_index`.
Tensor cross_entropy_rows(const Tensor& logits, const Tensor& labels, double label_smoothing, std::int64_t ignore_index,
                          Location where);

}  // namespace diptych::ops
