#pragma once

#include <optional>

#include "framework/nn/module.h"
#include "framework/ops/random.h"

namespace diptych::nn {

/// In training, each element becomes 0 with probability p, and x / (1 - p) otherwise; in eval the result is the input
/// itself. Draws from `generator`, or from the calling thread's default one. Throws Error unless 0 <= p <= 1.
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5, std::optional<Generator> generator = std::nullopt);
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
  std::optional<Generator> generator_;
};

}  // namespace diptych::nn
