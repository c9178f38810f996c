#include "framework/optim/optimizer.h"

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/graph/jit.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"

namespace diptych::optim {

Optimizer::Optimizer(Variables parameters, double learning_rate) : parameters_(std::move(parameters)) {
  if (parameters_.empty()) {
    throw Error("an optimizer needs at least one parameter; pass model.parameters()");
  }
  learning_rate_ = make_state(full({}, learning_rate, parameters_[0].type().dtype), "learning_rate");
}
Optimizer::~Optimizer() = default;

Variable Optimizer::make_state(const Tensor& initial, std::string name) {
  return state_.emplace_back(initial, std::move(name));
}

Variables Optimizer::make_zeros(std::string_view name) {
  Variables all;
  for (const Variable& parameter : parameters_) {
    const TensorType type = parameter.type();
    all.push_back(make_state(zeros(type.shape, type.dtype), fmt::format("{}.{}", name, parameter.name())));
  }
  return all;
}

void Optimizer::set_learning_rate(double rate) { learning_rate_.assign(full({}, rate, learning_rate_.type().dtype)); }

void Optimizer::step(std::span<const Tensor> gradients, Location where) {
  if (gradients.size() != parameters_.size()) {
    throw ShapeError(fmt::format("step: {} gradients for {} parameters", gradients.size(), parameters_.size()), where,
                     "pass one gradient per parameter, in the order of parameters()");
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].type() != parameters_[i].type()) {
      throw ShapeError(fmt::format("step: parameter '{}' is {}, its gradient is {}", parameters_[i].name(),
                                   to_string(parameters_[i].type()), to_string(gradients[i].type())),
                       where, "pass one gradient per parameter, in the order of parameters()");
    }
  }
  if (wants_graph()) {
    if (graph_ == nullptr) {
      graph::JitOptions options;
      options.name = "optimizer_step";
      graph_ = std::make_unique<graph::JitFunction>(
          [this](std::span<const Tensor> arguments, std::shared_ptr<void>& /*structure*/) {
            update(arguments);
            return std::vector<Tensor>();
          },
          std::move(options));
    }
    graph_->call(gradients, where);
    return;
  }
  const NoGrad guard;
  update(gradients);
}

SGD::SGD(Variables parameters, double learning_rate, double momentum)
    : Optimizer(std::move(parameters), learning_rate), momentum_(momentum) {
  if (momentum_ != 0) {
    velocities_ = make_zeros("velocity");
  }
}

void SGD::update(std::span<const Tensor> gradients) {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Tensor direction = gradients[i];
    if (momentum_ != 0) {
      direction = velocities_[i].value() * momentum_ + direction;
      velocities_[i].assign(direction);
    }
    parameters_[i].assign(parameters_[i].value() - direction * learning_rate_);
  }
}

Adam::Adam(Variables parameters, double learning_rate, double beta1, double beta2, double epsilon)
    : Optimizer(std::move(parameters), learning_rate), beta1_(beta1), beta2_(beta2), epsilon_(epsilon) {
  first_ = make_zeros("first_moment");
  second_ = make_zeros("second_moment");
  const DType dtype = parameters_[0].type().dtype;
  power1_ = make_state(ones({}, dtype), "beta1_power");
  power2_ = make_state(ones({}, dtype), "beta2_power");
}

void Adam::update(std::span<const Tensor> gradients) {
  power1_.assign(power1_.value() * beta1_);
  power2_.assign(power2_.value() * beta2_);
  const Tensor correction1 = 1.0 - Term(power1_);
  const Tensor correction2 = 1.0 - Term(power2_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& gradient = gradients[i];
    const Tensor first = first_[i].value() * beta1_ + gradient * (1 - beta1_);
    const Tensor second = second_[i].value() * beta2_ + square(gradient) * (1 - beta2_);
    first_[i].assign(first);
    second_[i].assign(second);
    const Tensor step = first / correction1 / (sqrt(second / correction2) + epsilon_);
    parameters_[i].assign(parameters_[i].value() - step * learning_rate_);
  }
}

}  // namespace diptych::optim
