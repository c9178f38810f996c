#pragma once

#include "framework/core/tensor.h"

/// Pooling of floating x[N, C, H, W] (2-d) or x[N, C, L] (1-d). Lists have one length for all spatial axes, or one per
/// axis. Wrong sizes throw ShapeError.
namespace diptych {

struct PoolOptions {
  Dims stride = {};  ///< none: the kernel's size, so that windows don't overlap
  /// At most half the kernel. Two lengths per axis: before and after.
  Dims padding = {0};
  Dims dilation = {1};  ///< max_pool only
  /// Rounds the result's length up: the last window may extend past the end, but must start inside.
  bool ceil_mode = false;
  /// avg_pool only: padding counts as elements of value zero.
  bool count_include_pad = true;
};

/// The largest element of each window, NaN if it contains one; padding never wins. The gradient goes to the first of
/// several equal elements.
Tensor max_pool2d(const Tensor& x, const Dims& kernel_size, const PoolOptions& options = {},
                  Location where = Location::current());
Tensor max_pool1d(const Tensor& x, const Dims& kernel_size, const PoolOptions& options = {},
                  Location where = Location::current());
/// The elements of `source`, which has x's type, where max_pool2d of x takes its own; 0 for a window of padding alone.
Tensor max_pool2d_gather(const Tensor& x, const Tensor& source, const Dims& kernel_size,
                         const PoolOptions& options = {}, Location where = Location::current());
Tensor avg_pool2d(const Tensor& x, const Dims& kernel_size, const PoolOptions& options = {},
                  Location where = Location::current());
Tensor avg_pool1d(const Tensor& x, const Dims& kernel_size, const PoolOptions& options = {},
                  Location where = Location::current());

/// Pools to `output_size`, with windows that cover the input as evenly as possible: output o of O takes the inputs from
/// floor(o * H / O) to below ceil((o + 1) * H / O).
Tensor adaptive_max_pool2d(const Tensor& x, const Dims& output_size, Location where = Location::current());
Tensor adaptive_max_pool1d(const Tensor& x, const Dims& output_size, Location where = Location::current());
Tensor adaptive_avg_pool2d(const Tensor& x, const Dims& output_size, Location where = Location::current());
Tensor adaptive_avg_pool1d(const Tensor& x, const Dims& output_size, Location where = Location::current());

/// Over all of H and W: [N, C, 1, 1].
Tensor global_max_pool2d(const Tensor& x, Location where = Location::current());
Tensor global_avg_pool2d(const Tensor& x, Location where = Location::current());
/// Over all of L: [N, C, 1].
Tensor global_max_pool1d(const Tensor& x, Location where = Location::current());
Tensor global_avg_pool1d(const Tensor& x, Location where = Location::current());

}  // namespace diptych
