// Optimizers against their published formulas, in plain double arithmetic.

#include "framework/optim/optimizer.h"

#include <cmath>

#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych {
namespace {

/// The gradient that a parameter sees in step t: any function will do.
double gradient_at(double parameter, int t) { return std::sin(3 * parameter) + 0.1 * t; }

template <class Formula>
void expect_follows(optim::Optimizer& optimizer, const Variable& parameter, Formula formula) {
  double expected = parameter.value().item();
  for (int t = 1; t <= 50; ++t) {
    const Tensor gradient = Tensor::scalar(gradient_at(parameter.value().item(), t));
    expected = formula(expected, gradient_at(expected, t), t);
    optimizer.step(std::span(&gradient, 1));
    ASSERT_NEAR(parameter.value().item(), expected, 1e-12) << "step " << t;
  }
}

TEST(SGD, FollowsItsFormula) {
  const Variable p(Tensor::scalar(0.4), "p");
  optim::SGD optimizer({p}, 0.1);
  expect_follows(optimizer, p, [](double x, double g, int) { return x - 0.1 * g; });
}

TEST(SGD, WithMomentumFollowsItsFormula) {
  const Variable p(Tensor::scalar(0.4), "p");
  optim::SGD optimizer({p}, 0.1, 0.9);
  double velocity = 0;
  expect_follows(optimizer, p, [&](double x, double g, int) {
    velocity = 0.9 * velocity + g;
    return x - 0.1 * velocity;
  });
}

TEST(Adam, FollowsAlgorithmOne) {
  const Variable p(Tensor::scalar(0.4), "p");
  optim::Adam optimizer({p}, 0.01);
  double m = 0;
  double v = 0;
  expect_follows(optimizer, p, [&](double x, double g, int t) {
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double corrected_m = m / (1 - std::pow(0.9, t));
    const double corrected_v = v / (1 - std::pow(0.999, t));
    return x - 0.01 * corrected_m / (std::sqrt(corrected_v) + 1e-8);
  });
}

TEST(Optimizer, ANewLearningRateDoesNotRecompile) {
  const Variable p(Tensor::scalar(1.0), "p");
  optim::SGD optimizer({p}, 0.5);
  auto step = jit([&](const Tensor& g) {
    optimizer.step(std::span(&g, 1));
    return p.value();
  });
  EXPECT_EQ(step(Tensor::scalar(1.0)).item(), 0.5);
  optimizer.set_learning_rate(0.25);
  EXPECT_EQ(step(Tensor::scalar(1.0)).item(), 0.25);
  EXPECT_EQ(step.compiled()->ledger().size(), 1U);
}

TEST(Optimizer, RefusesGradientsThatDoNotFit) {
  optim::SGD optimizer({Variable(zeros({2}), "w")}, 0.1);
  const Tensor wrong = zeros({3});
  EXPECT_THROW(optimizer.step(std::span(&wrong, 1)), ShapeError);
  EXPECT_THROW(optimizer.step({}), ShapeError);
  EXPECT_THROW(optim::SGD({}, 0.1), Error);
}

}  // namespace
}  // namespace diptych
