#include "framework/nn/layers.h"

#include <fmt/format.h>

#include "framework/nn/check.h"
#include "framework/nn/containers.h"
#include "framework/nn/init.h"
#include "framework/ops/matmul.h"
#include "framework/ops/view.h"

namespace diptych::nn {

using detail::checked_length;

Linear::Linear(std::int64_t inputs, std::int64_t outputs, Rng& rng, const LinearOptions& options) {
  checked_length("Linear", "inputs", inputs);
  checked_length("Linear", "outputs", outputs);
  weight = parameter("weight", init::by_name(options.init, rng, {inputs, outputs}, {inputs, outputs}, options.dtype));
  if (options.bias) {
    bias = parameter("bias", init::by_name(options.bias_init, rng, {outputs}, {inputs, outputs}, options.dtype));
  }
}
Tensor Linear::forward(const Tensor& x) {
  return linear(x, weight, bias.defined() ? bias.value() : Tensor(), caller());
}

namespace {
/// The options for adjacent patches.
ConvOptions tiling(ConvOptions options, std::int64_t patch) {
  options.stride = {patch};
  return options;
}
}  // namespace

PatchEmbed::PatchEmbed(std::int64_t channels, std::int64_t patch, std::int64_t width, Rng& rng,
                       const ConvOptions& options)
    : channels_(checked_length("PatchEmbed", "channels", channels)),
      patch_(checked_length("PatchEmbed", "patch", patch)),
      projection_(
          add("projection", std::make_shared<Conv2d>(channels, width, Dims{patch}, rng, tiling(options, patch)))) {}

Tensor PatchEmbed::forward(const Tensor& x) {
  const Shape& shape = x.shape();
  if (shape.rank() != 4 || shape[1] != channels_ || shape[2] % patch_ != 0 || shape[3] % patch_ != 0) {
    throw ShapeError(fmt::format("PatchEmbed: {} is no batch of images of {} channels that patches of {}x{} fill",
                                 to_string(x.type()), channels_, patch_, patch_),
                     caller(), "reshape or pad it");
  }
  const Location where = caller();
  return transpose(flatten((*projection_)(x, where), 2, -1, where), 1, 2, where);
}

Tensor Flatten::forward(const Tensor& x) {
  const int rank = x.rank();
  const int start = start_ < 0 ? start_ + rank : start_;
  const int end = end_ < 0 ? end_ + rank : end_;
  if (start < 0 || end >= rank || start > end) {
    throw ShapeError(fmt::format("Flatten: {} has no axes {} to {}", to_string(x.type()), start_, end_), caller(),
                     "choose others");
  }
  Shape shape;
  for (int i = 0; i < rank; ++i) {
    if (i <= start || i > end) {
      shape.push_back(x.shape()[i]);
    } else {
      shape[start] *= x.shape()[i];
    }
  }
  return reshape(x, shape, caller());
}

Sequential::Sequential(std::vector<ModulePtr> modules) : modules_(std::move(modules)) {
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    add(std::to_string(i), modules_[i]);
  }
}
Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const ModulePtr& module : modules_) {
    y = (*module)(y, caller());
  }
  return y;
}

}  // namespace diptych::nn
