#pragma once

#include "framework/core/tensor.h"

/// Convolutions in the sense of neural networks: the kernel isn't flipped. f32, f64 and bf16; types are promoted.
namespace diptych {

/// Lengths per spatial axis. A list of length one applies to all axes.
struct ConvolutionOptions {
  Dims stride = {1};
  /// Zeros. One length for all sides; one per axis, for both its sides; or two per axis: before, after, before, after.
  Dims padding = {0};
  Dims dilation = {1};
  std::int64_t groups = 1;
};
using Conv1dOptions = ConvolutionOptions;
using Conv2dOptions = ConvolutionOptions;

/// x: [N, C, H, W], weight: [O, C / groups, kh, kw], bias (may be undefined): [O] -> [N, O, H', W'] with
/// H' = (H + padding - dilation * (kh - 1) - 1) / stride + 1, rounded down. Throws ShapeError.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv2dOptions& options = {},
              Location where = Location::current());
/// x: [N, C, L], weight: [O, C / groups, k] -> [N, O, L'].
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv1dOptions& options = {},
              Location where = Location::current());

/// The gradient of conv2d with respect to x[N, C, H, W], given that of its result; `input_size` is {H, W}. Also known
/// as the transposed convolution.
Tensor conv2d_input_gradient(const Tensor& dy, const Tensor& weight, const Dims& input_size,
                             const Conv2dOptions& options = {}, Location where = Location::current());
/// The gradient of conv2d with respect to its weight[O, C / groups, kh, kw]; `kernel_size` is {kh, kw}.
Tensor conv2d_weight_gradient(const Tensor& x, const Tensor& dy, const Dims& kernel_size,
                              const Conv2dOptions& options = {}, Location where = Location::current());

/// x: [N, C, D, H, W], weight: [O, C / groups, kd, kh, kw] -> [N, O, D', H', W']: the sum over the kernel's kd planes
/// of conv2d, each of the planes of x that it meets (volume.cpp).
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const ConvolutionOptions& options = {},
              Location where = Location::current());
/// The gradient of conv3d with respect to x[N, C, D, H, W]; `input_size` is {D, H, W}.
Tensor conv3d_input_gradient(const Tensor& dy, const Tensor& weight, const Dims& input_size,
                             const ConvolutionOptions& options = {}, Location where = Location::current());

}  // namespace diptych
