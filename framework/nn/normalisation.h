#pragma once

#include "framework/nn/module.h"
#include "framework/ops/normalisation.h"

/// Normalisations as modules; framework/ops/normalisation.h has the formulas. Weights are initialised to ones, biases
/// to zeros.
namespace diptych::nn {

struct BatchNormModuleOptions {
  double eps = 1e-5;
  double momentum = 0.1;  ///< the weight of the new statistics in the running ones
  bool affine = true;     ///< has a weight and a bias
  /// Without running statistics, the batch's own are used in eval too.
  bool track_running_stats = true;
  DType dtype = DType::float32;
};

/// Shared by 1-d and 2-d. Buffers: running_mean (zeros at first) and running_var (ones), each [channels].
class BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& x) override;

  Variable weight, bias;
  Variable running_mean, running_var;

 protected:
  /// `ranks`: the ranks that inputs may have.
  BatchNorm(const char* name, std::int64_t channels, Dims ranks, const BatchNormModuleOptions& options);

 private:
  const char* name_;
  Dims ranks_;
  BatchNormModuleOptions options_;
};

/// x: [N, C] or [N, C, L]
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(std::int64_t channels, const BatchNormModuleOptions& options = {})
      : BatchNorm("BatchNorm1d", channels, {2, 3}, options) {}
};
/// x: [N, C, H, W]
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(std::int64_t channels, const BatchNormModuleOptions& options = {})
      : BatchNorm("BatchNorm2d", channels, {4}, options) {}
};

struct NormOptions {
  double eps = 1e-5;
  bool affine = true;  ///< has a weight, and a bias
  bool bias = true;
  DType dtype = DType::float32;
};

/// Over the last axes, whose lengths are `normalized_shape`.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& normalized_shape, const NormOptions& options = {});
  Tensor forward(const Tensor& x) override;

  Variable weight, bias;

 private:
  Shape shape_;
  double eps_;
};

/// Over the last axes, without a mean and without a bias.
class RMSNorm : public Module {
 public:
  explicit RMSNorm(const Shape& normalized_shape, const NormOptions& options = {.eps = 1e-6});
  Tensor forward(const Tensor& x) override;

  Variable weight;

 private:
  Shape shape_;
  double eps_;
};

/// x: [N, C, ...], with the channels divided into `groups`.
class GroupNorm : public Module {
 public:
  GroupNorm(std::int64_t groups, std::int64_t channels, const NormOptions& options = {});
  Tensor forward(const Tensor& x) override;

  Variable weight, bias;

 private:
  std::int64_t groups_;
  double eps_;
};

}  // namespace diptych::nn
