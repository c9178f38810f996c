#include "framework/optim/clip.h"

#include <cmath>

#include <fmt/format.h>

#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"

namespace diptych::optim {

ClippedGradients clip_grad_norm(std::span<const Tensor> gradients, double max_norm, double norm_type, Location where) {
  const bool largest = std::isinf(norm_type) && norm_type > 0;
  if (!largest && norm_type != 1 && norm_type != 2) {
    throw Error(fmt::format("clip_grad_norm: the norm type is {}", norm_type), where, "choose 1, 2 or infinity");
  }
  if (!(max_norm > 0)) {
    throw Error(fmt::format("clip_grad_norm: max_norm is {}", max_norm), where, "choose a positive one");
  }
  Tensor total;
  for (const Tensor& gradient : gradients) {
    if (gradient.numel() == 0) {
      continue;
    }
    // bfloat16 would lose small terms.
    const Tensor x = gradient.dtype() == DType::bfloat16 ? cast(gradient, DType::float32, where) : gradient;
    const Tensor part = largest          ? max(abs(x, where), {}, false, where)
                        : norm_type == 1 ? sum(abs(x, where), {}, false, where)
                                         : sum(square(x, where), {}, false, where);
    total = !total.defined() ? part : largest ? maximum(total, part, where) : add(total, part, where);
  }
  ClippedGradients result;
  result.norm = !total.defined() ? zeros({}, DType::float32, where) : norm_type == 2 ? sqrt(total, where) : total;
  const Tensor scale =
      minimum(max_norm / Term(result.norm + Term(1e-6, where), where), ones({}, result.norm.dtype(), where), where);
  for (const Tensor& gradient : gradients) {
    result.gradients.push_back(mul(gradient, cast(scale, gradient.dtype(), where), where));
  }
  return result;
}

std::vector<Tensor> clip_grad_value(std::span<const Tensor> gradients, double limit, Location where) {
  if (!(limit >= 0)) {
    throw Error(fmt::format("clip_grad_value: the limit is {}", limit), where, "choose one of at least 0");
  }
  std::vector<Tensor> clipped;
  for (const Tensor& gradient : gradients) {
    const Tensor bound = full({}, limit, gradient.dtype(), where);
    clipped.push_back(maximum(minimum(gradient, bound, where), neg(bound, where), where));
  }
  return clipped;
}

}  // namespace diptych::optim
