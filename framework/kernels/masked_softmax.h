#pragma once

#include <cstdint>

#include "framework/core/dims.h"
#include "framework/dispatch/call.h"
#include "framework/math/inline.h"

namespace diptych::kernels {

/// Stacks of matrices of scores, and where the mask's element for each score lies.
struct Scores {
  std::int64_t matrices = 0;
  std::int64_t rows = 0;     ///< of one matrix
  std::int64_t columns = 0;  ///< of one row
  double scale = 1;
  bool is_causal = false;
  /// Of gradients: sums go over the columns that a row doesn't attend to, too, whose weights are 0: NaN where the
  /// gradient there isn't finite.
  bool whole_rows = false;

  enum class Mask : std::uint8_t { none, boolean, floating } mask_kind = Mask::none;
  const void* mask = nullptr;
  int batch_rank = 0;
  std::int64_t batch[kMaxRank] = {};
  std::int64_t mask_batch[kMaxRank] = {};  ///< strides in elements; 0 where it broadcasts
  std::int64_t mask_row = 0;
  std::int64_t mask_column = 0;

  /// How many columns row `row` may attend to.
  DIPTYCH_INLINE std::int64_t attended(std::int64_t row) const {
    return is_causal && row + 1 < columns ? row + 1 : columns;
  }
  /// Of the mask's elements for a row.
  std::int64_t mask_offset(std::int64_t matrix, std::int64_t row) const {
    std::int64_t offset = row * mask_row;
    for (int axis = batch_rank - 1; axis >= 0; --axis) {
      offset += matrix % batch[axis] * mask_batch[axis];
      matrix /= batch[axis];
    }
    return offset;
  }
};

/// `shape`: of the scores, [..., L, S]. `mask`, which may be null, is bool or of the scores' type, and broadcasts to
/// them.
Scores scores_of(const Shape& shape, double scale, bool is_causal, const Operand* mask);

/// Some rows of one matrix, and as many of their columns as the last of them may attend to, or more.
struct ScorePart {
  std::int64_t matrix;
  std::int64_t first_row, rows;
  std::int64_t columns;
  std::int64_t pitch;     ///< from row to row, of everything that is read and written
  bool has_room = false;  ///< rows may be read and written in whole vectors: `in` too, which isn't const then
};

/// out = softmax(scale in + mask) for each row; `in` may be `out`. A row whose scores are all masked is 0. Masked
/// columns are 0, or NaN if the row has a NaN.
template <class T>
void masked_softmax(const Scores& scores, const ScorePart& part, const T* in, T* out);

/// out = scale p (g - sum(g p)) for each row: from the gradient g with respect to the result p to that with respect to
/// the scores. `out` may be `g`.
template <class T>
void masked_softmax_backward(const Scores& scores, const ScorePart& part, const T* g, const T* p, T* out);

}  // namespace diptych::kernels
