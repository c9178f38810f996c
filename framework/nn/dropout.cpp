#include "framework/nn/dropout.h"

#include <fmt/format.h>

namespace diptych::nn {

Dropout::Dropout(double p, std::optional<Generator> generator) : p_(p), generator_(std::move(generator)) {
  if (!(p >= 0 && p <= 1)) {
    throw Error(fmt::format("Dropout: p is {}; it must be in [0, 1]", p));
  }
}

Tensor Dropout::forward(const Tensor& x) {
  return dropout(x, p_, is_training(), generator_ ? *generator_ : default_generator(), caller());
}

}  // namespace diptych::nn
