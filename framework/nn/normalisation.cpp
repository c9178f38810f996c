#include "framework/nn/normalisation.h"

#include "framework/nn/check.h"
#include "framework/ops/creation.h"

namespace diptych::nn {
namespace {

const Shape& checked_shape(const char* module, const Shape& shape) {
  if (shape.empty()) {
    throw Error(fmt::format("{}: the normalized shape has no axes; give the lengths of the last ones", module));
  }
  for (const std::int64_t length : shape) {
    detail::checked_length(module, "a normalized length", length);
  }
  return shape;
}

}  // namespace

BatchNorm::BatchNorm(const char* name, std::int64_t channels, Dims ranks, const BatchNormModuleOptions& options)
    : name_(name), ranks_(ranks), options_(options) {
  detail::checked_length(name, "channels", channels);
  if (options.affine) {
    weight = parameter("weight", ones({channels}, options.dtype));
    bias = parameter("bias", zeros({channels}, options.dtype));
  }
  if (options.track_running_stats) {
    running_mean = buffer("running_mean", zeros({channels}, options.dtype));
    running_var = buffer("running_var", ones({channels}, options.dtype));
  }
}

Tensor BatchNorm::forward(const Tensor& x) {
  if (!ranks_.contains(x.rank())) {
    throw ShapeError(fmt::format("{}: {} has {} axes, not {}", name_, to_string(x.type()), x.rank(), to_string(ranks_)),
                     caller(), "reshape it, or choose the module for its axes");
  }
  return batch_norm(
      x, weight.value_or_none(), bias.value_or_none(), running_mean, running_var,
      {.training = is_training() || !options_.track_running_stats, .momentum = options_.momentum, .eps = options_.eps},
      caller());
}

LayerNorm::LayerNorm(const Shape& normalized_shape, const NormOptions& options)
    : shape_(checked_shape("LayerNorm", normalized_shape)), eps_(options.eps) {
  if (options.affine) {
    weight = parameter("weight", ones(shape_, options.dtype));
    if (options.bias) {
      bias = parameter("bias", zeros(shape_, options.dtype));
    }
  }
}
Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(x, shape_, weight.value_or_none(), bias.value_or_none(), eps_, caller());
}

RMSNorm::RMSNorm(const Shape& normalized_shape, const NormOptions& options)
    : shape_(checked_shape("RMSNorm", normalized_shape)), eps_(options.eps) {
  if (options.affine) {
    weight = parameter("weight", ones(shape_, options.dtype));
  }
}
Tensor RMSNorm::forward(const Tensor& x) { return rms_norm(x, shape_, weight.value_or_none(), eps_, caller()); }

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const NormOptions& options)
    : groups_(detail::checked_length("GroupNorm", "groups", groups)), eps_(options.eps) {
  detail::checked_length("GroupNorm", "channels", channels);
  if (channels % groups != 0) {
    throw Error(fmt::format("GroupNorm: {} groups don't divide {} channels; choose a divisor", groups, channels));
  }
  if (options.affine) {
    weight = parameter("weight", ones({channels}, options.dtype));
    if (options.bias) {
      bias = parameter("bias", zeros({channels}, options.dtype));
    }
  }
}
Tensor GroupNorm::forward(const Tensor& x) {
  return group_norm(x, groups_, weight.value_or_none(), bias.value_or_none(), eps_, caller());
}

}  // namespace diptych::nn
