#pragma once

#include <optional>

#include "framework/ops/random.h"

/// Attention [Vaswani et al. 2017].
namespace diptych {

struct AttentionOptions {
  /// Broadcasts to [..., L, S]: bool (true: takes part) or floating (added to the scores). Undefined: none.
  Tensor mask = {};
  /// Row i attends only to columns 0 to i. Combines with `mask`.
  bool is_causal = false;
  /// Factor of the scores; 0: 1 / sqrt(E).
  double scale = 0;
  /// Weights become 0 with this probability, those that stay are divided by 1 - dropout: dropout() of the weights, with
  /// its numbers.
  double dropout = 0;
  std::optional<Generator> generator = std::nullopt;  ///< for dropout; none: the default one
};

/// q: [..., L, E], k: [..., S, E], v: [..., S, F] -> [..., L, F]: softmax(scale q k^T + mask) v; leading axes
/// broadcast. A row that may attend to no column is 0. One op that keeps the scores in the cache, with the bits of
/// matmul(dropout(masked_softmax(matmul(q, k^T), ...)), v); these ops where leading axes broadcast, for bf16, where
/// BLAS multiplies, and for up to 256 x 256 scores on a tape, whose gradient is faster if it finds the weights.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {}, Location where = Location::current());

/// scores: [..., L, S] -> softmax(scale scores + mask) along the last axis, in one pass over the scores. The bits are
/// the same as with three separate ops, except that with a mask a row of -infinity is 0. A scale of 0 multiplies by
/// 0.
Tensor masked_softmax(const Tensor& scores, const Tensor& mask = {}, bool is_causal = false, double scale = 1,
                      Location where = Location::current());

}  // namespace diptych
