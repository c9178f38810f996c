#pragma once

#include "framework/core/variable.h"

/// Normalisations of floating tensors: h = (x - mean) / sqrt(variance + eps), then h * weight + bias. Weight and bias
/// may be undefined. Variances are biased, and accurate for any mean. Wrong shapes throw ShapeError.
namespace diptych {

struct BatchNormOptions {
  bool training = true;
  double momentum = 0.1;  ///< the weight of the new statistics in the running ones
  double eps = 1e-5;
};
/// x: [N, C, ...]; normalises each channel over all other axes. weight, bias and the running statistics: [C]. In
/// training it uses the batch's own statistics and updates the running ones, if there are any, with them (the variance
/// unbiased); otherwise it uses the running ones.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Variable& running_mean,
                  const Variable& running_var, const BatchNormOptions& options = {},
                  Location where = Location::current());

/// Over the last axes, whose lengths are `normalized_shape`, which is also the shape of weight and bias.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5, Location where = Location::current());

/// x: [N, C, ...]; divides the channels into `groups` of neighbours and normalises each group over the rest of the
/// image. weight and bias: [C].
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5, Location where = Location::current());

/// x / sqrt(mean(x^2) + eps) * weight over the last axes.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {}, double eps = 1e-6,
                Location where = Location::current());

}  // namespace diptych
