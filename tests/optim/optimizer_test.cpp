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

TEST(SGD, WithNesterovAndWeightDecayFollowsItsFormula) {
  const Variable p(Tensor::scalar(0.4), "p");
  optim::SGD optimizer({p}, {.lr = 0.05, .momentum = 0.8, .weight_decay = 0.1, .nesterov = true});
  double velocity = 0;
  expect_follows(optimizer, p, [&](double x, double g, int) {
    g += 0.1 * x;
    velocity = 0.8 * velocity + g;
    return x - 0.05 * (g + 0.8 * velocity);
  });
}

TEST(Adam, WithWeightDecayAddsItToTheGradient) {
  const Variable p(Tensor::scalar(0.4), "p");
  optim::Adam optimizer({p}, {.lr = 0.01, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.2});
  double m = 0;
  double v = 0;
  expect_follows(optimizer, p, [&](double x, double g, int t) {
    g += 0.2 * x;
    m = 0.8 * m + 0.2 * g;
    v = 0.95 * v + 0.05 * g * g;
    return x - 0.01 * (m / (1 - std::pow(0.8, t))) / (std::sqrt(v / (1 - std::pow(0.95, t))) + 1e-3);
  });
}

TEST(AdamW, DecaysApartFromTheGradient) {
  const Variable p(Tensor::scalar(0.4), "p");
  optim::AdamW optimizer({p}, {.lr = 0.01, .weight_decay = 0.3});
  double m = 0;
  double v = 0;
  expect_follows(optimizer, p, [&](double x, double g, int t) {
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    x -= 0.01 * 0.3 * x;
    return x - 0.01 * (m / (1 - std::pow(0.9, t))) / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1e-8);
  });
}

/// The first step of Adam is lr * sign(g), whatever the gradient's size: in f32 too, where 1 - 0.999 would be off by
/// 6e-5 if it were computed in f32.
TEST(Adam, TheFirstStepIsExact) {
  const Variable p(Tensor::scalar(0.0F), "p");
  optim::Adam optimizer({p}, 1.0);
  const Tensor gradient = Tensor::scalar(3.0F);
  optimizer.step(std::span(&gradient, 1));
  EXPECT_NEAR(p.value().item(), -1, 3e-7);
}

TEST(Optimizer, UpdatesBfloat16InFloat) {
  // 0.999 and steps of 1e-4 don't exist in bfloat16; in f32 state they add up.
  const Variable p(full({1}, 0.5, DType::bfloat16), "p");
  optim::Adam optimizer({p}, 1e-2);
  for (int i = 0; i < 20; ++i) {
    const Tensor gradient = full({1}, 1, DType::bfloat16);
    optimizer.step(std::span(&gradient, 1));
  }
  EXPECT_NEAR(p.value().item(), 0.3, 0.02);
  EXPECT_EQ(p.type().dtype, DType::bfloat16);
}

TEST(Optimizer, TakesParametersOfSeveralTypes) {
  const Variable a(Tensor::scalar(1.0F), "a");
  const Variable b(Tensor::scalar(1.0), "b");
  const Variable c(full({}, 1, DType::bfloat16), "c");
  for (const bool adam : {false, true}) {
    std::unique_ptr<optim::Optimizer> optimizer = std::make_unique<optim::SGD>(Variables{a, b, c}, 0.25, 0.5);
    if (adam) {
      optimizer = std::make_unique<optim::AdamW>(Variables{a, b, c});
    }
    optimizer->step(std::vector<Tensor>{Tensor::scalar(1.0F), Tensor::scalar(1.0), full({}, 1, DType::bfloat16)});
    EXPECT_NEAR(a.value().item(), b.value().item(), 1e-6);
    EXPECT_NEAR(c.value().item(), b.value().item(), 1e-2);
    EXPECT_LT(b.value().item(), 1);
  }
}

/// Steps with momentum, decay and bias corrections as one graph, after which only the rate changes.
TEST(Optimizer, EagerGraphAndModeGiveTheSameBits) {
  Rng rng(4);
  const Tensor start = rng.normal({7, 5});
  std::vector<Tensor> gradients;
  for (int i = 0; i < 30; ++i) {
    gradients.push_back(rng.normal({7, 5}));
  }
  const auto make = [](const Variable& p, int kind) -> std::unique_ptr<optim::Optimizer> {
    if (kind == 0) {
      return std::make_unique<optim::SGD>(
          Variables{p}, optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
    }
    if (kind == 1) {
      return std::make_unique<optim::Adam>(Variables{p}, optim::AdamOptions{.weight_decay = 0.01});
    }
    return std::make_unique<optim::AdamW>(Variables{p});
  };
  for (int kind = 0; kind < 3; ++kind) {
    std::vector<Tensor> results;
    for (const char* how : {"eager", "jit", "mode"}) {
      const Variable p(start, "p");
      const auto optimizer = make(p, kind);
      const auto step = [&](const Tensor& g) {
        optimizer->step(std::span(&g, 1));
        return p.value();
      };
      auto captured = jit(step);
      set_mode(how[0] == 'm' ? Mode::graph : Mode::eager);
      for (const Tensor& gradient : gradients) {
        how[0] == 'j' ? captured(gradient) : step(gradient);
      }
      set_mode(Mode::eager);
      results.push_back(p.value());
    }
    EXPECT_TRUE(bitwise_equal(results[0], results[1])) << kind;
    EXPECT_TRUE(bitwise_equal(results[0], results[2])) << kind;
    EXPECT_FALSE(bitwise_equal(results[0], start));
  }
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

TEST(Optimizer, OptionsThatMakeNoSenseAreRefused) {
  const Variables p{Variable(zeros({2}), "w")};
  const double nan = std::nan("");
  EXPECT_THROW(optim::SGD(p, -0.1), Error);
  EXPECT_THROW(optim::SGD(p, nan), Error);
  EXPECT_THROW(optim::SGD(p, {.nesterov = true}), Error);
  EXPECT_THROW(optim::SGD(p, {.weight_decay = -1}), Error);
  EXPECT_THROW(optim::Adam(p, {.betas = {1, 0.9}}), Error);
  EXPECT_THROW(optim::Adam(p, {.betas = {0.9, nan}}), Error);
  EXPECT_THROW(optim::AdamW(p, {.eps = -1}), Error);
  EXPECT_THROW(optim::SGD({Variable(zeros({2}, DType::int64), "i")}, 0.1), DTypeError);
  optim::SGD good(p, 0.1);
  EXPECT_THROW(good.set_learning_rate(nan), Error);
  EXPECT_EQ(good.learning_rate(), 0.1);
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
