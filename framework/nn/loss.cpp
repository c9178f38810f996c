#include "framework/nn/loss.h"

#include <fmt/format.h>

#include "framework/ops/elementwise.h"
#include "framework/ops/reduction.h"
#include "framework/ops/softmax.h"

namespace diptych::nn {

Tensor mse_loss(const Tensor& prediction, const Tensor& target, Location where) {
  if (prediction.shape() != target.shape()) {
    throw ShapeError(
        fmt::format("mse_loss: shapes differ: {} x {}", to_string(prediction.type()), to_string(target.type())), where,
        "broadcasting here is nearly always a mistake; expand one of them if you mean it");
  }
  return mean(square(sub(prediction, target, where), where), {}, false, where);
}

Tensor cross_entropy_loss(const Tensor& logits, const Tensor& labels, Location where) {
  return cross_entropy(logits, labels, where);
}

}  // namespace diptych::nn
