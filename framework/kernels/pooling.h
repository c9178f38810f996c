#pragma once

#include "framework/core/dtype.h"
#include "framework/kernels/window.h"

namespace diptych::kernels {

/// Pooling of dense f32 or f64 planes. The bits are the same on every instruction set.
struct PoolShape {
  std::int64_t planes = 0;
  WindowAxis rows;
  WindowAxis columns;
  /// Output o takes the inputs from floor(o * input / output) to below ceil((o + 1) * input / output); then only the
  /// windows' input and output are used.
  bool adaptive = false;
  /// Means only: padding (but not what ceil mode adds) counts as elements.
  bool count_padding = false;
  std::int64_t after_rows = 0;  ///< padding
  std::int64_t after_columns = 0;

  std::int64_t input_plane() const { return rows.input * columns.input; }
  std::int64_t output_plane() const { return rows.output * columns.output; }
};

/// The largest element of each window, NaN if it contains one. Padding never wins; a window of padding alone gives
/// -inf.
void max_pool(const PoolShape& shape, DType dtype, const void* x, void* y);
/// y: the elements of `source` where x has the maximum of each window (the first of equal ones); 0 if the window is all
/// padding.
void max_pool_gather(const PoolShape& shape, DType dtype, const void* x, const void* source, void* y);
/// The transpose of max_pool_gather in its source.
void max_pool_scatter(const PoolShape& shape, DType dtype, const void* x, const void* dy, void* dx);
/// The mean of each window.
void mean_pool(const PoolShape& shape, DType dtype, const void* x, void* y);
/// The transpose of mean_pool.
void mean_pool_scatter(const PoolShape& shape, DType dtype, const void* dy, void* dx);

}  // namespace diptych::kernels
