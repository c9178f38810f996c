#pragma once

#include "framework/nn/module.h"
#include "framework/ops/activation.h"
#include "framework/ops/softmax.h"

/// Activation functions as modules; see framework/ops/activation.h for the formulas.
namespace diptych::nn {

namespace detail {
template <Tensor (*function)(const Tensor&, Location)>
class Activation : public Module {
 public:
  Tensor forward(const Tensor& x) override { return function(x, caller()); }
};
}  // namespace detail

using ReLU = detail::Activation<relu>;
using GELU = detail::Activation<gelu>;
using GELUTanh = detail::Activation<gelu_tanh>;
using SiLU = detail::Activation<silu>;
using Tanh = detail::Activation<tanh>;
using Sigmoid = detail::Activation<sigmoid>;
using HardSigmoid = detail::Activation<hard_sigmoid>;
using HardSwish = detail::Activation<hard_swish>;

class LeakyReLU : public Module {
 public:
  explicit LeakyReLU(double negative_slope = 0.01) : slope_(negative_slope) {}
  Tensor forward(const Tensor& x) override { return leaky_relu(x, slope_, caller()); }

 private:
  double slope_;
};
class ELU : public Module {
 public:
  explicit ELU(double alpha = 1) : alpha_(alpha) {}
  Tensor forward(const Tensor& x) override { return elu(x, alpha_, caller()); }

 private:
  double alpha_;
};
class Softplus : public Module {
 public:
  explicit Softplus(double beta = 1) : beta_(beta) {}
  Tensor forward(const Tensor& x) override { return softplus(x, beta_, caller()); }

 private:
  double beta_;
};
class Softmax : public Module {
 public:
  explicit Softmax(int axis = -1) : axis_(axis) {}
  Tensor forward(const Tensor& x) override { return softmax(x, axis_, caller()); }

 private:
  int axis_;
};

/// "relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid", "identity". Throws Error, which lists these names, for
/// others.
ModulePtr activation_by_name(std::string_view name);

}  // namespace diptych::nn
