// A branch that depends on elements, written with cond(), with gradients: in eager, and as one graph that holds both
// branches.

#include <fmt/format.h>

#include "framework/diptych.h"

using namespace diptych;

int main() {
  Variable weight(Tensor::from({2.0F, -1.0F}, {2}), "weight");

  // A robust loss: squared near zero, linear far away, chosen by the error of the whole example. Branches may read
  // outer values, variables included; both return the same type.
  auto loss = [&](const Tensor& x, const Tensor& target) {
    const Tensor error = sum(x * weight) - target;
    return cond(
        less_equal(abs(error), full({}, 1.0)),  //
        [&] { return square(error) * 0.5; },    //
        [&] { return abs(error) - 0.5; });
  };
  auto eager = value_and_grad(loss, {.arguments = {0}, .weights = {weight}});
  auto graph = jit(eager);

  const Tensor x = Tensor::from({1.0F, 0.5F}, {2});  // predicts 1.5
  bool equal_bits = true;
  for (const float target : {1.0F, 10.0F}) {
    const auto expected = eager(x, Tensor::scalar(target));
    const auto actual = graph(x, Tensor::scalar(target));
    fmt::print("target {}: loss {}, by x {}, by weight {}\n", target, to_string(actual.value),
               to_string(actual.arguments[0]), to_string(actual.weights[0]));
    equal_bits = equal_bits && bitwise_equal(expected.value, actual.value) &&
                 bitwise_equal(expected.arguments[0], actual.arguments[0]) &&
                 bitwise_equal(expected.weights[0], actual.weights[0]);
  }
  // One graph serves both: the branch is chosen at each call.
  fmt::print("compilations: {}\n", graph.compiled()->ledger().size());
  fmt::print("equal bits: {}\n", equal_bits ? "yes" : "no");
  return equal_bits && graph.compiled()->ledger().size() == 1 ? 0 : 1;
}
