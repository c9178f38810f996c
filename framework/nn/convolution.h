#pragma once

#include "framework/nn/module.h"
#include "framework/ops/convolution.h"

namespace diptych::nn {

/// The options of the op (stride, padding, dilation, groups), and the initialisation of the parameters.
struct ConvOptions : ConvolutionOptions {
  bool bias = true;
  std::string init = "fan_in_uniform";  ///< for the weight; see framework/nn/init.h
  std::string bias_init = "fan_in_uniform";
  DType dtype = DType::float32;
};

/// x: [N, inputs, H, W] -> [N, outputs, H', W']; weight: [outputs, inputs / groups, kh, kw], bias: [outputs]. A kernel
/// of one length is square. See conv2d() for H' and W'.
class Conv2d : public Module {
 public:
  Conv2d(std::int64_t inputs, std::int64_t outputs, const Dims& kernel_size, Rng& rng, const ConvOptions& options = {});
  Tensor forward(const Tensor& x) override;

  Variable weight;
  Variable bias;

 private:
  ConvOptions options_;
};

/// x: [N, inputs, L] -> [N, outputs, L']; weight: [outputs, inputs / groups, k].
class Conv1d : public Module {
 public:
  Conv1d(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel_size, Rng& rng,
         const ConvOptions& options = {});
  Tensor forward(const Tensor& x) override;

  Variable weight;
  Variable bias;

 private:
  ConvOptions options_;
};

}  // namespace diptych::nn
