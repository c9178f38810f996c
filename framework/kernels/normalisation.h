#pragma once

#include "framework/core/dtype.h"

namespace diptych::kernels {

/// Which elements of a dense x are normalised together, h = (x - mean) * rstd with rstd = 1 / sqrt(variance + eps), and
/// which weight each has: y = h * weight + bias.
struct NormShape {
  std::int64_t rows = 0;     ///< groups that are normalised
  std::int64_t columns = 0;  ///< elements of each
  /// Rows are runs of x, with a weight a column; or x is [batch, rows, plane], with a weight a row.
  bool by_channel = false;
  std::int64_t batch = 1;
  std::int64_t plane = 1;
  bool centred = true;  ///< false: the mean counts as 0 and the variance is the mean square
  double eps = 0;
};

/// f32 or f64, dense; sums in the order of kernels/reduction.h. Variances are corrected two-pass ones [Chan, Golub and
/// LeVeque 1983], and what the mean loses to rounding is subtracted too: a large mean costs no accuracy.
/// `weight` and `bias` may be null.
void normalise(const NormShape& shape, DType dtype, const void* x, const void* weight, const void* bias, void* y);
/// dx = rstd * (g - mean(g) - h * mean(g * h)) with g = dy * weight.
void normalise_input_gradient(const NormShape& shape, DType dtype, const void* dy, const void* x, const void* weight,
                              void* dx);
/// The sum of dy * h over the elements of each weight.
void normalise_weight_gradient(const NormShape& shape, DType dtype, const void* dy, const void* x, void* dweight);
/// The means of the rows, then their biased variances.
void normalise_statistics(const NormShape& shape, DType dtype, const void* x, void* statistics);

}  // namespace diptych::kernels
