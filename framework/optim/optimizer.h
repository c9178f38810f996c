#pragma once

#include <memory>
#include <span>

#include "framework/core/variable.h"

namespace diptych::graph {
class JitFunction;
}

namespace diptych::optim {

/// Updates parameters from gradients. All of its state is in Variables, so a step can be part of a graph; in graph mode
/// a step outside one is a graph of its own.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One gradient per parameter, in their order. Throws ShapeError if they don't fit.
  void step(std::span<const Tensor> gradients, Location where = Location::current());

  /// A change doesn't recompile: the rate is state too.
  void set_learning_rate(double rate);
  /// Everything but the parameters: for checkpoints and tests.
  const Variables& state() const { return state_; }

 protected:
  Optimizer(Variables parameters, double learning_rate);

  virtual void update(std::span<const Tensor> gradients) = 0;

  /// Registers a state variable.
  Variable make_state(const Tensor& initial, std::string name);
  /// One for each parameter, of its type, zero.
  Variables make_zeros(std::string_view name);

  Variables parameters_;
  Variable learning_rate_;

 private:
  Variables state_;
  std::unique_ptr<graph::JitFunction> graph_;
};

/// v = momentum v + g; p = p - rate v (no momentum: p = p - rate g) [PyTorch's form].
class SGD : public Optimizer {
 public:
  SGD(Variables parameters, double learning_rate, double momentum = 0);

 private:
  void update(std::span<const Tensor> gradients) override;

  double momentum_;
  Variables velocities_;
};

/// Adam with bias correction [Kingma & Ba 2015, Algorithm 1].
class Adam : public Optimizer {
 public:
  explicit Adam(Variables parameters, double learning_rate = 1e-3, double beta1 = 0.9, double beta2 = 0.999,
                double epsilon = 1e-8);

 private:
  void update(std::span<const Tensor> gradients) override;

  double beta1_, beta2_, epsilon_;
  Variables first_, second_;
  Variable power1_, power2_;  ///< beta^t: state, so that the step number is no constant of the graph
};

}  // namespace diptych::optim
