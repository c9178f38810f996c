#pragma once

#include <array>
#include <memory>
#include <span>

#include "framework/core/variable.h"

namespace diptych::graph {
class JitFunction;
}

namespace diptych::optim {

/// Updates parameters from gradients. All of its state is in Variables, so a step can be part of a graph; in graph mode
/// a step outside of one is a graph of its own. bfloat16 parameters are updated in f32 and rounded once per step.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One gradient per parameter, in the same order. Throws ShapeError if they don't match.
  void step(std::span<const Tensor> gradients, Location where = Location::current());

  /// A change doesn't recompile, because the rate is state too. Throws CaptureError inside a captured function, where
  /// the rate would become a constant.
  void set_learning_rate(double rate, Location where = Location::current());
  double learning_rate() const;
  /// Everything but the parameters: for checkpoints and tests.
  const Variables& state() const { return state_; }

 protected:
  Optimizer(Variables parameters, double learning_rate);

  virtual void update(std::span<const Tensor> gradients) = 0;

  /// Registers a state variable.
  Variable make_state(const Tensor& initial, std::string name);
  /// One zero variable per parameter, of its shape and of the type in which it is updated.
  Variables make_zeros(std::string_view name);

  Variables parameters_;
  Variable learning_rate_;

 private:
  Variables state_;
  std::unique_ptr<graph::JitFunction> graph_;
};

/// Named as in PyTorch's torch.optim.SGD.
struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// g = g + weight_decay p; v = momentum v + g; p = p - lr v; without momentum: p = p - lr g; nesterov: p = p - lr
/// (g + momentum v) [PyTorch's form; Sutskever et al. 2013].
class SGD : public Optimizer {
 public:
  SGD(Variables parameters, const SGDOptions& options);
  SGD(Variables parameters, double learning_rate, double momentum = 0)
      : SGD(std::move(parameters), SGDOptions{.lr = learning_rate, .momentum = momentum}) {}

 private:
  void update(std::span<const Tensor> gradients) override;

  SGDOptions options_;
  Variables velocities_;
};

/// Named as in PyTorch's torch.optim.Adam.
struct AdamOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
};

/// Adam with bias correction [Kingma & Ba 2015, Algorithm 1]; weight_decay is added to the gradient.
class Adam : public Optimizer {
 public:
  explicit Adam(Variables parameters, const AdamOptions& options = {}) : Adam(std::move(parameters), options, false) {}
  Adam(Variables parameters, double learning_rate, double beta1 = 0.9, double beta2 = 0.999, double epsilon = 1e-8)
      : Adam(std::move(parameters), AdamOptions{.lr = learning_rate, .betas = {beta1, beta2}, .eps = epsilon}) {}

 protected:
  Adam(Variables parameters, const AdamOptions& options, bool decoupled);

 private:
  void update(std::span<const Tensor> gradients) override;

  AdamOptions options_;
  bool decoupled_;
  Variables first_, second_;
  Variable power1_, power2_;  ///< beta^t: state, so that the step number doesn't become a constant of the graph
};

/// As in PyTorch's torch.optim.AdamW.
struct AdamWOptions {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 1e-2;
};

/// Adam with decoupled weight decay: p = p - lr weight_decay p before the step [Loshchilov & Hutter 2019, Algorithm 2].
class AdamW : public Adam {
 public:
  explicit AdamW(Variables parameters, const AdamWOptions& options = {})
      : Adam(std::move(parameters), {options.lr, options.betas, options.eps, options.weight_decay}, true) {}
};

}  // namespace diptych::optim
