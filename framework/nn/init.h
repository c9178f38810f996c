#pragma once

#include <string_view>

#include "framework/core/rng.h"

/// Initial values of parameters, named as in torch.nn.init; options of modules refer to them by name.
namespace diptych::nn::init {

/// The number of inputs per output, and of outputs per input.
struct Fans {
  std::int64_t in = 1;
  std::int64_t out = 1;
};

/// `name`, optionally with a number: "xavier_uniform", "normal(0.02)".
///
///   zeros, ones           constant(c)
///   uniform(b = 1)        U(-b, b)
///   normal(s = 1)         N(0, s^2)
///   truncated_normal(s)   N(0, s^2), drawn again outside [-2 s, 2 s]
///   fan_in_uniform(g = 1) U(-g / sqrt(fan in), g / sqrt(fan in)): the initialisation of PyTorch's Linear and Conv
///   xavier_uniform(g = 1), xavier_normal    variance 2 g^2 / (fan in + fan out) [Glorot & Bengio 2010]
///   kaiming_uniform(g = sqrt 2), kaiming_normal    variance g^2 / fan in [He et al. 2015]
///
/// Throws Error, which lists the existing names, for any other name, and for meaningless numbers.
Tensor by_name(std::string_view name, Rng& rng, const Shape& shape, Fans fans, DType dtype = DType::float32);

}  // namespace diptych::nn::init
