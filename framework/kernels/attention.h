#pragma once

#include "framework/kernels/masked_softmax.h"
#include "framework/kernels/matrix_product.h"
#include "framework/kernels/random.h"

/// Attention block of rows by block of rows: the scores of a block stay in the cache, the matrix of all scores never
/// exists. The bits are those of the three ops, product, masked softmax and product, on the whole matrix: rows don't
/// depend on each other, and sums that run over rows keep their blocks (matrix_product.h).
namespace diptych::kernels {

/// The operands of one matrix of scores, where they lie: q [L, E], k [S, E], v [S, F].
template <class T>
struct Head {
  std::int64_t matrix;  ///< which of the scores' matrices
  Matrix<T> q, k, v;
};

/// Of the weights: element i of the stack of matrices is times `factor`, or 0 where number i of the draw says so.
struct WeightDropout {
  RandomState state;
  Chance keep;
  double factor;
};

struct RowRange {
  std::int64_t first, count;
};

/// out [count, F] = dropout(softmax(scale q k^T + mask)) v for a range of the L rows; `dropout` may be null.
template <class T>
void attention(const Scores& scores, const Head<T>& head, const WeightDropout* dropout, const RowRange& rows, T* out);

/// The gradients dq [L, E], dk [S, E] and dv [S, F] from that with respect to the result, g [L, F].
template <class T>
void attention_backward(const Scores& scores, const Head<T>& head, const WeightDropout* dropout, const Matrix<T>& g,
                        T* dq, T* dk, T* dv);

}  // namespace diptych::kernels
