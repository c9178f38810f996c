#include "framework/transforms/value_and_grad.h"

#include <fmt/format.h>

#include "framework/autograd/backward.h"
#include "framework/core/tensor_body.h"

namespace diptych::detail {

void GradScope::watch_weights() {
  for (int position : options_.arguments) {
    if (std::none_of(watched_.begin(), watched_.end(), [&](const auto& entry) { return entry.first == position; })) {
      throw Error(fmt::format("grad: there is no argument {} to differentiate by", position), where_,
                  "positions count from 0");
    }
  }
  for (const Variable& weight : options_.weights) {
    watched_weights_.push_back(autograd::watch(weight.value(), where_));
  }
  for (std::size_t i = 0; i < options_.weights.size(); ++i) {
    previous_weights_.push_back(options_.weights[i].exchange(watched_weights_[i]));
  }
}

void GradScope::restore() {
  for (std::size_t i = 0; i < previous_weights_.size(); ++i) {
    const Variable& weight = options_.weights[i];
    const Tensor current = weight.value();
    // A weight assigned by the function keeps its new value.
    if (current.body() == watched_weights_[i].body()) {
      weight.exchange(previous_weights_[i]);
    }
  }
  previous_weights_.clear();
}

void GradScope::finish(Tensor& value, const Tensor& cotangent, std::vector<Tensor>& by_argument,
                       std::vector<Tensor>& by_weight) {
  restore();
  if (cotangent.defined()) {
    if (cotangent.type() != value.type()) {
      throw ShapeError(fmt::format("grad: the function returned {}, the cotangent is {}", to_string(value.type()),
                                   to_string(cotangent.type())),
                       where_, "sens() takes a cotangent of the result's type");
    }
  } else if (value.numel() != 1 || !is_floating(value.dtype())) {
    throw Error(fmt::format("grad: the function returned {}, not a floating-point scalar", to_string(value.type())),
                where_, "reduce it with sum() or mean() first, or give its cotangent by sens()");
  }
  std::vector<Tensor> targets;
  for (int position : options_.arguments) {
    targets.push_back(std::find_if(watched_.begin(), watched_.end(), [&](const auto& entry) {
                        return entry.first == position;
                      })->second);
  }
  targets.insert(targets.end(), watched_weights_.begin(), watched_weights_.end());
  autograd::BackwardResult result =
      autograd::gradients(std::span(&value, 1), targets, std::span(&cotangent, 1), {/*release=*/true, serial_}, where_);
  if (!result.outer) {
    value = detached_alias(value);
  }
  const auto arguments = static_cast<std::ptrdiff_t>(options_.arguments.size());
  by_argument.assign(result.gradients.begin(), result.gradients.begin() + arguments);
  by_weight.assign(result.gradients.begin() + arguments, result.gradients.end());
}

}  // namespace diptych::detail
