#pragma once

#include "framework/core/tensor.h"

/// Elementwise activation functions, defined as in PyTorch, for floating types; relu and clip also take integers.
namespace diptych {

Tensor tanh(const Tensor& x, Location where = Location::current());
Tensor sigmoid(const Tensor& x, Location where = Location::current());
/// max(x, 0); its gradient at 0 is 0.
Tensor relu(const Tensor& x, Location where = Location::current());
/// x where x > 0, else slope x.
Tensor leaky_relu(const Tensor& x, double slope = 0.01, Location where = Location::current());
/// x where x > 0, else alpha (e^x - 1).
Tensor elu(const Tensor& x, double alpha = 1, Location where = Location::current());
/// x sigmoid(x)
Tensor silu(const Tensor& x, Location where = Location::current());
/// x Phi(x), exactly.
Tensor gelu(const Tensor& x, Location where = Location::current());
/// The tanh approximation of gelu, within 5e-4 of it.
Tensor gelu_tanh(const Tensor& x, Location where = Location::current());
/// clip(x / 6 + 1/2, 0, 1)
Tensor hard_sigmoid(const Tensor& x, Location where = Location::current());
/// x hard_sigmoid(x)
Tensor hard_swish(const Tensor& x, Location where = Location::current());
/// log(1 + e^(beta x)) / beta, beta > 0.
Tensor softplus(const Tensor& x, double beta = 1, Location where = Location::current());
/// At least `low` and at most `high`; if `high` is below `low`, `high` wins. An infinity is no bound. Integers clipped
/// to a fraction become f32. Throws Error if a bound is NaN.
Tensor clip(const Tensor& x, double low, double high, Location where = Location::current());

}  // namespace diptych
