#pragma once

#include "framework/nn/convolution.h"
#include "framework/nn/module.h"

namespace diptych::nn {

struct LinearOptions {
  bool bias = true;
  std::string init = "fan_in_uniform";  ///< for the weight; see framework/nn/init.h
  std::string bias_init = "fan_in_uniform";
  DType dtype = DType::float32;
};

/// y = x W + b; x: [..., inputs], W: [inputs, outputs], b: [outputs] (undefined without bias).
class Linear : public Module {
 public:
  Linear(std::int64_t inputs, std::int64_t outputs, Rng& rng, const LinearOptions& options = {});
  Tensor forward(const Tensor& x) override;

  Variable weight;
  Variable bias;
};

/// x: [N, C, H, W] -> [N, (H / patch) (W / patch), width]: the patches in row-major order, each through the same linear
/// map. This is a convolution whose stride equals its kernel, so no matrix of patches is made, nor kept for the
/// gradient. Throws ShapeError unless the patches fill the image.
class PatchEmbed : public Module {
 public:
  PatchEmbed(std::int64_t channels, std::int64_t patch, std::int64_t width, Rng& rng, const ConvOptions& options = {});
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t channels_, patch_;
  std::shared_ptr<Conv2d> projection_;
};

/// Merges the axes from `start` to `end` (both included) into one.
class Flatten : public Module {
 public:
  explicit Flatten(int start = 1, int end = -1) : start_(start), end_(end) {}
  Tensor forward(const Tensor& x) override;

 private:
  int start_, end_;
};

class Identity : public Module {
 public:
  Tensor forward(const Tensor& x) override { return x; }
};

}  // namespace diptych::nn
