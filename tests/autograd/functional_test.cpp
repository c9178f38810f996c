// Jacobian products from both sides, against formulas, against each other and nested in each other.

#include <cmath>

#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych {
namespace {

Tensor vector(std::initializer_list<double> values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}
void expect_near(const Tensor& actual, const std::vector<double>& expected, double tolerance = 1e-12) {
  const std::vector<double> values = actual.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << i;
  }
}

const auto cube_sum = [](const Tensor& x) { return sum(x * x * x); };

TEST(Jvp, IsTheDirectionalDerivative) {
  const auto [y, t] = jvp([](const Tensor& x) { return exp(x) * x; }, vector({0.5, -1}), vector({2, 3}));
  expect_near(y, {0.5 * std::exp(0.5), -std::exp(-1)});
  expect_near(t, {2 * 1.5 * std::exp(0.5), 0}, 1e-12);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_FALSE(t.requires_grad());
}

TEST(Jvp, OfSeveralArgumentsAndResults) {
  const auto f = [](const Tensor& a, const Tensor& b) { return std::pair(a * b, sum(b)); };
  const auto [y, t] = jvp(f, std::tuple(vector({2, 3}), vector({5, 7})), std::tuple(vector({1, 0}), vector({0, 1})));
  expect_near(y.first, {10, 21});
  expect_near(t.first, {5, 3});
  expect_near(t.second, {1});
}

TEST(Jvp, OfAConstantIsZero) {
  const auto [y, t] = jvp([](const Tensor& x) { return stop_gradient(x) * 1.0; }, vector({1, 2}), vector({1, 1}));
  expect_near(t, {0, 0});
}

TEST(Jvp, BroadcastsTangents) {
  const auto f = [](const Tensor& a) { return a + Tensor::from({1.0, 2.0, 3.0, 4.0}, {2, 2}); };
  const auto [y, t] = jvp(f, vector({1, 1}), vector({3, 4}));
  expect_near(t, {3, 4, 3, 4});
}

TEST(Jvp, NestsInItself) {
  // Perturbations must not be confused: d/dx (x * d/dy (x + y)) = 1 [Siskind & Pearlmutter 2005].
  const auto outer = [](const Tensor& x) {
    return x * jvp([&](const Tensor& y) { return x + y; }, vector({1}), vector({1})).second;
  };
  expect_near(jvp(outer, vector({1}), vector({1})).second, {1});
  const auto second = [](const Tensor& x) {
    return jvp([](const Tensor& y) { return y * y * y; }, x, vector({1})).second;
  };
  expect_near(jvp(second, vector({2}), vector({1})).second, {12});
}

TEST(Jvp, OfAGradientAndTheGradientOfAJvp) {
  const auto forward_over_reverse = jvp(grad(cube_sum), vector({1, 2}), vector({1, 1})).second;
  expect_near(forward_over_reverse, {6, 12});
  auto directional = [](const Tensor& x) { return jvp(cube_sum, x, vector({1, 1})).second; };
  expect_near(grad(directional)(vector({1, 2})), {6, 12});
}

TEST(Vjp, CanPullBackManyTimes) {
  const auto [y, pullback] =
      vjp([](const Tensor& a, const Tensor& b) { return a * b; }, vector({2, 3}), vector({5, 7}));
  expect_near(y, {10, 21});
  const auto [by_a, by_b] = pullback(vector({1, 0}));
  expect_near(by_a, {5, 0});
  expect_near(by_b, {2, 0});
  expect_near(std::get<0>(pullback(vector({0, 1}))), {0, 7});
}

TEST(Vjp, IsDifferentiableByItsCotangent) {
  const auto f = [](const Tensor& u) {
    const auto [y, pullback] = vjp([](const Tensor& x) { return x * x; }, vector({3, 4}));
    return sum(pullback(u) * vector({1, 10}));
  };
  expect_near(grad(f)(vector({1, 1})), {6, 80});
}

TEST(Linearize, IsLinearAndReusable) {
  const auto [y, push] = linearize([](const Tensor& x) { return tanh(x); }, vector({0.3, 0.7}));
  expect_near(push(vector({1, 0})), {1 - std::tanh(0.3) * std::tanh(0.3), 0});
  expect_near(push(vector({0, 2})), {0, 2 * (1 - std::tanh(0.7) * std::tanh(0.7))});
}

TEST(Jacobian, ByRowsAndByColumnsAgree) {
  const auto f = [](const Tensor& x) { return reshape(x, {3, 1}) * reshape(slice(x, 0, 0, 2), {1, 2}); };
  const Tensor x = vector({2, 3, 5});
  const Tensor rows = jacrev(f)(x);
  const Tensor columns = jacfwd(f)(x);
  EXPECT_EQ(rows.shape(), (Shape{3, 2, 3}));
  EXPECT_EQ(columns.shape(), (Shape{3, 2, 3}));
  expect_near(rows, {4, 0, 0, 3, 2, 0, 3, 2, 0, 0, 6, 0, 5, 0, 2, 0, 5, 3});
  expect_near(columns, rows.to_vector<double>());
}

TEST(Jacobian, BySecondArgument) {
  const auto f = [](const Tensor& a, const Tensor& b) { return a * b * b; };
  expect_near(jacrev(f, 1)(vector({2, 3}), vector({5, 7})), {20, 0, 0, 42});
  expect_near(jacfwd(f, 1)(vector({2, 3}), vector({5, 7})), {20, 0, 0, 42});
  EXPECT_THROW(jacrev(f, 2)(vector({1}), vector({1})), Error);
}

TEST(Hessian, OfARosenbrock) {
  // f(x, y) = (1 - x)^2 + 100 (y - x^2)^2
  const auto f = [](const Tensor& v) {
    const Tensor x = slice(v, 0, 0, 1);
    const Tensor y = slice(v, 0, 1, 2);
    return sum(square(1.0 - x) + square(y - x * x) * 100.0);
  };
  const double x = 1.5;
  const double y = -0.5;
  expect_near(hessian(f)(vector({x, y})), {2 - 400 * (y - 3 * x * x), -400 * x, -400 * x, 200});
  const auto [value, product] = hvp(f, vector({x, y}), vector({1, 2}));
  expect_near(value, {0.25 + 100 * (y - x * x) * (y - x * x)});
  expect_near(product, {2 - 400 * (y - 3 * x * x) - 800 * x, -400 * x + 400});
}

TEST(Functional, ThirdOrder) {
  auto third = jacfwd(jacfwd(jacrev([](const Tensor& x) { return sum(x * x * x * x); })));
  expect_near(third(vector({2})), {48});
}

TEST(Functional, RunsInsideAGraph) {
  const auto f = [](const Tensor& x) { return sum(exp(x) * x); };
  const auto all = [f](const Tensor& x, const Tensor& v) {
    auto [value, product] = hvp(f, x, v);
    return std::vector<Tensor>{value, product, jvp(f, x, v).second, hessian(f)(x)};
  };
  const Tensor x = vector({0.5, -1});
  const Tensor v = vector({1, 2});
  const std::vector<Tensor> eager = all(x, v);
  auto compiled = jit(all);
  for (int call = 0; call < 2; ++call) {
    const std::vector<Tensor> graph = compiled(x, v);
    for (std::size_t i = 0; i < eager.size(); ++i) {
      EXPECT_TRUE(bitwise_equal(eager[i], graph[i])) << i;
    }
  }
}

TEST(Functional, GoesThroughACompiledFunction) {
  auto f = jit([](const Tensor& x) { return exp(x) * x; });
  expect_near(jvp(f, vector({0.5}), vector({2})).second, {2 * 1.5 * std::exp(0.5)});
  expect_near(jacfwd(f)(vector({0.5, 0})), {1.5 * std::exp(0.5), 0, 0, 1});
}

TEST(Functional, RefusesWhatDoesNotFit) {
  EXPECT_THROW(jvp(cube_sum, vector({1, 2}), vector({1})), ShapeError);
  EXPECT_THROW(jvp(cube_sum, Tensor::from({std::int64_t{1}}, {1}), Tensor::from({std::int64_t{1}}, {1})), DTypeError);
  EXPECT_THROW(hvp([](const Tensor& x) { return x * x; }, vector({1, 2}), vector({1, 1})), ShapeError);
  const auto [y, pullback] = vjp(cube_sum, vector({1, 2}));
  EXPECT_THROW(pullback(vector({1, 2})), ShapeError);
}

TEST(Sens, GivesTheCotangentOfTheResult) {
  const auto f = [](const Tensor& x) { return x * x; };
  expect_near(grad(f)(vector({1, 2}), sens(vector({10, 100}))), {20, 400});
  const auto both = value_and_grad([](const Tensor& a, const Tensor& b) { return a * b; }, {{0, 1}, {}})(
      vector({2, 3}), vector({5, 7}), sens(vector({1, 0})));
  expect_near(both.arguments[0], {5, 0});
  expect_near(both.arguments[1], {2, 0});
  EXPECT_THROW(grad(f)(vector({1, 2}), sens(vector({1}))), ShapeError);
  EXPECT_THROW(grad(f)(vector({1, 2})), Error);
  set_mode(Mode::graph);
  auto compiled = grad(f);
  const Tensor in_graph = compiled(vector({1, 2}), sens(vector({10, 100})));
  set_mode(Mode::eager);
  expect_near(in_graph, {20, 400});
}

}  // namespace
}  // namespace diptych
