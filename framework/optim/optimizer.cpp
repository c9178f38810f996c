#include "framework/optim/optimizer.h"

#include <cmath>

#include <fmt/format.h>

#include "framework/core/context.h"
#include "framework/ops/creation.h"
#include "framework/ops/elementwise.h"
#include "framework/ops/update.h"
#include "framework/transforms/jit.h"

namespace diptych::optim {
namespace {

/// bfloat16 is too coarse for steps: 0.999 would be 1, and small updates would vanish.
DType update_dtype(DType parameter) { return parameter == DType::bfloat16 ? DType::float32 : parameter; }

/// A value common to all elements, computed in f64 and cast once for each type of parameter.
class Scalar {
 public:
  explicit Scalar(Tensor value) : value_(std::move(value)) {}
  const Tensor& as(DType dtype) {
    if (!cast_.defined() || cast_.dtype() != dtype) {
      cast_ = cast(value_, dtype);
    }
    return cast_;
  }

 private:
  Tensor value_;
  Tensor cast_;
};

void check(bool good, const char* optimizer, const char* option, double value, const char* allowed) {
  if (!good) {
    throw Error(fmt::format("{}: {} is {}; it must be {}", optimizer, option, value, allowed));
  }
}
/// Also refuses NaN.
void check_rate(const char* optimizer, double rate) {
  check(rate >= 0 && std::isfinite(rate), optimizer, "lr", rate, "finite and at least 0");
}

}  // namespace

Optimizer::Optimizer(Variables parameters, double learning_rate) : parameters_(std::move(parameters)) {
  if (parameters_.empty()) {
    throw Error("an optimizer needs at least one parameter; pass model.parameters()");
  }
  for (const Variable& parameter : parameters_) {
    if (!is_floating(parameter.type().dtype)) {
      throw DTypeError(fmt::format("an optimizer can't update '{}', which is {}; pass floating-point parameters",
                                   parameter.name(), to_string(parameter.type())));
    }
  }
  learning_rate_ = make_state(full({}, learning_rate, DType::float64), "learning_rate");
}
Optimizer::~Optimizer() = default;

Variable Optimizer::make_state(const Tensor& initial, std::string name) {
  return state_.emplace_back(initial, std::move(name));
}

Variables Optimizer::make_zeros(std::string_view name) {
  Variables all;
  for (const Variable& parameter : parameters_) {
    const TensorType type = parameter.type();
    all.push_back(
        make_state(zeros(type.shape, update_dtype(type.dtype)), fmt::format("{}.{}", name, parameter.name())));
  }
  return all;
}

void Optimizer::set_learning_rate(double rate, Location where) {
  if (thread_context.tracer() != nullptr) {
    throw CaptureError("set_learning_rate: inside a captured function the rate would become a constant of its graph",
                       where, "call it outside, before the step");
  }
  check_rate("optimizer", rate);
  learning_rate_.assign(full({}, rate, DType::float64));
}

double Optimizer::learning_rate() const { return learning_rate_.value().item(); }

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

SGD::SGD(Variables parameters, const SGDOptions& options)
    : Optimizer(std::move(parameters), options.lr), options_(options) {
  check_rate("SGD", options.lr);
  check(options.momentum >= 0, "SGD", "momentum", options.momentum, "at least 0");
  check(options.weight_decay >= 0, "SGD", "weight_decay", options.weight_decay, "at least 0");
  if (options.nesterov && options.momentum == 0) {
    throw Error("SGD: nesterov needs a momentum; set one, or leave nesterov out");
  }
  if (options.momentum != 0) {
    velocities_ = make_zeros("velocity");
  }
}

void SGD::update(std::span<const Tensor> gradients) {
  Scalar rate(learning_rate_);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const DType stored = parameters_[i].type().dtype;
    const DType dtype = update_dtype(stored);
    const Tensor parameter = cast(parameters_[i], dtype);
    Tensor direction = cast(gradients[i], dtype);
    if (options_.weight_decay != 0) {
      direction = axpby(direction, parameter, 1, options_.weight_decay);
    }
    if (options_.momentum != 0) {
      const Tensor velocity = axpby(velocities_[i], direction, options_.momentum, 1);
      velocities_[i].assign(velocity);
      direction = options_.nesterov ? axpby(direction, velocity, 1, options_.momentum) : velocity;
    }
    parameters_[i].assign(cast(descend(parameter, direction, rate.as(dtype)), stored));
  }
}

Adam::Adam(Variables parameters, const AdamOptions& options, bool decoupled)
    : Optimizer(std::move(parameters), options.lr), options_(options), decoupled_(decoupled) {
  const char* name = decoupled ? "AdamW" : "Adam";
  check_rate(name, options.lr);
  for (const double beta : options.betas) {
    check(beta >= 0 && beta < 1, name, "a beta", beta, "in [0, 1)");
  }
  check(options.eps >= 0, name, "eps", options.eps, "at least 0");
  check(options.weight_decay >= 0, name, "weight_decay", options.weight_decay, "at least 0");
  first_ = make_zeros("first_moment");
  second_ = make_zeros("second_moment");
  power1_ = make_state(ones({}, DType::float64), "beta1_power");
  power2_ = make_state(ones({}, DType::float64), "beta2_power");
}

// p - lr (m / c1) / (sqrt(v / c2) + eps), with c = 1 - beta^t.
void Adam::update(std::span<const Tensor> gradients) {
  const auto [beta1, beta2] = options_.betas;
  const Tensor power1 = power1_.value() * beta1;
  const Tensor power2 = power2_.value() * beta2;
  power1_.assign(power1);
  power2_.assign(power2);
  Scalar rate(learning_rate_.value() / (1.0 - power1));
  Scalar scale(reciprocal(sqrt(1.0 - power2)));
  Scalar kept(decoupled_ ? 1.0 - learning_rate_.value() * options_.weight_decay : Tensor());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const DType stored = parameters_[i].type().dtype;
    const DType dtype = update_dtype(stored);
    Tensor parameter = cast(parameters_[i], dtype);
    Tensor gradient = cast(gradients[i], dtype);
    if (options_.weight_decay != 0) {
      if (decoupled_) {
        parameter = parameter * kept.as(dtype);
      } else {
        gradient = axpby(gradient, parameter, 1, options_.weight_decay);
      }
    }
    const Tensor first = axpby(first_[i], gradient, beta1, 1 - beta1);
    const Tensor second = second_moment(second_[i], gradient, beta2);
    first_[i].assign(first);
    second_[i].assign(second);
    const Tensor direction = adam_direction(first, second, scale.as(dtype), options_.eps);
    parameters_[i].assign(cast(descend(parameter, direction, rate.as(dtype)), stored));
  }
}

}  // namespace diptych::optim
