// The examples of docs/control-flow.md: tests/docs compares them with the page.

#include <sstream>

#include <gtest/gtest.h>

#include "tests/graph/variants.h"

namespace diptych {
namespace {

TEST(ControlFlowExamples, Cond) {
  auto clipped = jit([](const Tensor& gradient) {
    const Tensor norm = sqrt(sum(gradient * gradient));
    return cond(
        greater(norm, full({}, 1.0)), [&] { return gradient / norm; }, [&] { return gradient; });
  });
  testing::expect_same_bits(clipped(testing::f32({3, 4}, {2})), testing::f32({0.6F, 0.8F}, {2}), "long");
  testing::expect_same_bits(clipped(testing::f32({0, 0.5F}, {2})), testing::f32({0, 0.5F}, {2}), "short");
}

TEST(ControlFlowExamples, WhileLoop) {
  auto halvings = [](const Tensor& x) {
    using Carry = std::pair<Tensor, Tensor>;  // the rest, and how often it was halved
    return while_loop([](const Carry& c) { return greater(c.first, full({}, 1.0)); },
                      [](const Carry& c) { return Carry(c.first * 0.5, c.second + 1); }, Carry(x, zeros({})),
                      {.max_iterations = 100});
  };
  EXPECT_EQ(halvings(Tensor::scalar(40.0F)).second.item(), 6);
}

TEST(ControlFlowExamples, Scan) {
  Variable weight(Rng(1).normal({4, 4}, 0, 0.5), "weight");
  auto loss = [&](const Tensor& sequence) {  // f32[steps, batch, 4]
    const auto [last, norms] = scan(
        [&](const Tensor& state, const Tensor& x) {
          const Tensor next = tanh(matmul(state, weight) + x);
          return std::pair(next, sum(next * next));
        },
        zeros({2, 4}), sequence);
    return sum(last * last) + mean(norms);
  };
  auto step = jit(value_and_grad(loss, {.weights = {weight}}));
  const Tensor sequence = Rng(2).normal({5, 2, 4});
  testing::expect_same_bits(step(sequence).weights[0], value_and_grad(loss, {.weights = {weight}})(sequence).weights[0],
                            "gradient");
}

TEST(ControlFlowExamples, Debug) {
  std::ostringstream log;
  debug::set_stream(&log);
  auto step = jit([](const Tensor& x) {
    const Tensor y = debug::print("y", x * 2);
    return debug::check_finite(sum(y), "loss");
  });
  step(testing::f32({1, 2}, {2}));  // y: f32[2] {2, 4}
  debug::set_stream(nullptr);
  EXPECT_EQ(log.str(), "y: f32[2] {2, 4}\n");
}

}  // namespace
}  // namespace diptych
