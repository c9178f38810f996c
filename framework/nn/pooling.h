#pragma once

#include "framework/nn/module.h"
#include "framework/ops/pooling.h"

/// Pooling as modules; framework/ops/pooling.h has the shapes.
namespace diptych::nn {

namespace detail {
template <Tensor (*function)(const Tensor&, const Dims&, const PoolOptions&, Location)>
class Pool : public Module {
 public:
  explicit Pool(const Dims& kernel_size, const PoolOptions& options = {}) : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) override { return function(x, kernel_, options_, caller()); }

 private:
  Dims kernel_;
  PoolOptions options_;
};

template <Tensor (*function)(const Tensor&, const Dims&, Location)>
class AdaptivePool : public Module {
 public:
  explicit AdaptivePool(const Dims& output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x) override { return function(x, output_size_, caller()); }

 private:
  Dims output_size_;
};

template <Tensor (*function)(const Tensor&, Location)>
class GlobalPool : public Module {
 public:
  Tensor forward(const Tensor& x) override { return function(x, caller()); }
};
}  // namespace detail

using MaxPool1d = detail::Pool<max_pool1d>;
using MaxPool2d = detail::Pool<max_pool2d>;
using AvgPool1d = detail::Pool<avg_pool1d>;
using AvgPool2d = detail::Pool<avg_pool2d>;
using AdaptiveMaxPool1d = detail::AdaptivePool<adaptive_max_pool1d>;
using AdaptiveMaxPool2d = detail::AdaptivePool<adaptive_max_pool2d>;
using AdaptiveAvgPool1d = detail::AdaptivePool<adaptive_avg_pool1d>;
using AdaptiveAvgPool2d = detail::AdaptivePool<adaptive_avg_pool2d>;
using GlobalMaxPool1d = detail::GlobalPool<global_max_pool1d>;
using GlobalMaxPool2d = detail::GlobalPool<global_max_pool2d>;
using GlobalAvgPool1d = detail::GlobalPool<global_avg_pool1d>;
using GlobalAvgPool2d = detail::GlobalPool<global_avg_pool2d>;

}  // namespace diptych::nn
