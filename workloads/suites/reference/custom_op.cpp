// A custom operation: a function with its own gradient rule, and an intermediate value that is printed. The same C++
// function runs op by op and as a graph.

#include <fmt/format.h>

#include "framework/diptych.h"

using namespace diptych;

namespace {

/// An eager tensor has elements, so the host can print it. A traced one has only a type: the print becomes a node of
/// the graph, which prints at each call. (debug::print alone does the right thing in both modes.)
Tensor show(const char* label, const Tensor& x) {
  if (x.is_traced()) {
    return debug::print(label, x);
  }
  fmt::print("{}: {}\n", label, to_string(x));
  return x;
}

}  // namespace

int main() {
  // softplus(x) = log(1 + e^x), which is x where e^x would overflow. There, its gradient by the ops' own rules is NaN:
  // 0 (from the side that isn't chosen) times infinity.
  auto by_ops = [](const Tensor& x) { return where(greater(x, full({}, 20.0)), x, log1p(show("  e^x", exp(x)))); };
  // The rule: forward returns the result and what backward needs, which is x alone; backward is the sigmoid times the
  // cotangent.
  auto softplus = custom_vjp([&](const Tensor& x) { return std::pair(by_ops(x), x); },
                             [](const Tensor& x, const Tensor& cotangent) { return cotangent / (exp(-x) + 1.0); });

  auto loss = value_and_grad([&](const Tensor& x) { return sum(softplus(x)); });
  auto compiled = jit(loss);

  const Tensor x = Tensor::from({-2.0F, 0.0F, 1.5F, 100.0F}, {4});
  fmt::print("eager, the ops' own rules\n");
  fmt::print("  gradient: {}\n", to_string(grad([&](const Tensor& at) { return sum(by_ops(at)); })(x)));

  fmt::print("eager, our rule\n");
  const auto eager = loss(x);
  fmt::print("  loss: {}\n  gradient: {}\n", to_string(eager.value), to_string(eager.arguments[0]));

  bool equal_bits = true;
  for (int call = 1; call <= 2; ++call) {  // the first call captures and compiles, the second replays
    fmt::print("graph, our rule, call {}\n", call);
    const auto graph = compiled(x);
    fmt::print("  loss: {}\n  gradient: {}\n", to_string(graph.value), to_string(graph.arguments[0]));
    equal_bits =
        equal_bits && bitwise_equal(eager.value, graph.value) && bitwise_equal(eager.arguments[0], graph.arguments[0]);
  }
  fmt::print("equal bits: {}\n", equal_bits ? "yes" : "no");
  return equal_bits ? 0 : 1;
}
