#pragma once

#include "framework/core/dtype.h"

namespace diptych::kernels {

/// Which elements of a dense x are normalised together, h = (x - mean) * rstd with rstd = 1 / sqrt(variance + eps), and
/// which weight applies to each: y = h * weight + bias.
struct NormShape {
  std::int64_t rows = 0;     ///< groups that are normalised
  std::int64_t columns = 0;  ///< elements of each group
  /// False: rows are runs of x, with one weight per column. True: x is [batch, rows, plane], with one weight per row.
  bool by_channel = false;
  std::int64_t batch = 1;
  std::int64_t plane = 1;
  std::int64_t result_pitch = 0;  ///< by channel: from a plane of the result to the same one of the next image
  bool centred = true;            ///< false: the mean is taken as 0, and the variance is the mean square
  double eps = 0;
};

/// f32 or f64, dense (results by channel, at `result_pitch`); sums in the order of kernels/reduction.h. Variances are
/// corrected two-pass ones [Chan, Golub and LeVeque 1983], and the rounding error of the mean is subtracted too, so a
/// large mean costs no accuracy. `weight` and `bias` may be null, and `statistics` (of rows, or of channels), which are
/// then found anew.
void normalise(const NormShape& shape, DType dtype, const void* x, const void* weight, const void* bias,
               const void* statistics, void* y);
/// The mean, its rounding error and rstd of each row (not by channel): what normalise() and its gradients share.
void normalise_row_statistics(const NormShape& shape, DType dtype, const void* x, void* statistics);
/// The same of each channel, and its biased variance.
void normalise_channel_statistics(const NormShape& shape, DType dtype, const void* x, void* statistics);
/// dx = rstd * (g - mean(g) - h * mean(g * h)) with g = dy * weight.
void normalise_input_gradient(const NormShape& shape, DType dtype, const void* dy, const void* x, const void* weight,
                              const void* statistics, void* dx);
/// For each weight, the sum of dy * h over its elements.
void normalise_weight_gradient(const NormShape& shape, DType dtype, const void* dy, const void* x,
                               const void* statistics, void* dweight);

}  // namespace diptych::kernels
