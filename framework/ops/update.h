#pragma once

#include "framework/core/tensor.h"

/// The steps of optimizers, each one pass over memory. Elementwise and broadcasting, for one floating-point type.
namespace diptych {

/// alpha a + beta b
Tensor axpby(const Tensor& a, const Tensor& b, double alpha, double beta, Location where = Location::current());
/// a - scale b: a step of length `scale` against the direction b.
Tensor descend(const Tensor& a, const Tensor& b, const Tensor& scale, Location where = Location::current());
/// decay average + (1 - decay) x^2: the running second moment.
Tensor second_moment(const Tensor& average, const Tensor& x, double decay, Location where = Location::current());
/// first / (sqrt(second) scale + epsilon): Adam's direction.
Tensor adam_direction(const Tensor& first, const Tensor& second, const Tensor& scale, double epsilon,
                      Location where = Location::current());

}  // namespace diptych
