// What happens when the host asks for an element of a traced value, and three alternatives from which a graph can be
// made: choose by elements (where), choose by a whole branch (cond), look at a value (debug::print).

#include <fmt/format.h>

#include "framework/diptych.h"

using namespace diptych;

int main() {
  const Tensor small = Tensor::from({0.5F, -0.25F}, {2});
  const Tensor large = Tensor::from({30.0F, -40.0F}, {2});

  // In eager, an `if` on an element works. At a capture there are no elements yet, and guessing would bake the branch
  // of one input into the graph; it is therefore an error, which names the op and the line.
  auto clip = [](const Tensor& x) {
    const Tensor norm = sqrt(sum(x * x));
    if (norm.item() > 1) {
      return x / norm;
    }
    return x;
  };
  fmt::print("eager, a C++ if: {}\n", to_string(clip(large)));
  bool refused = false;
  try {
    jit(clip)(large);
  } catch (const CaptureError& error) {
    refused = true;
    fmt::print("graph, a C++ if: refused\n  {}\n", error.what());
  }

  // where(): both sides are computed, and the choice is made for each element.
  auto by_where = jit([](const Tensor& x) {
    const Tensor norm = sqrt(sum(x * x));
    return where(greater(norm, full({}, 1.0)), x / norm, x);
  });
  // cond(): both branches are in the graph, and one of them runs.
  auto by_cond = jit([](const Tensor& x) {
    const Tensor norm = sqrt(sum(x * x));
    return cond(
        greater(norm, full({}, 1.0)), [&] { return x / norm; }, [&] { return x; });
  });
  // debug::print(): shows a value at each call, and returns it.
  auto with_print = jit([](const Tensor& x) {
    const Tensor norm = debug::print("  the norm", sqrt(sum(x * x)));
    return where(greater(norm, full({}, 1.0)), x / norm, x);
  });

  bool equal_bits = true;
  for (const Tensor& x : {small, large}) {
    const Tensor expected = clip(x);
    fmt::print("where: {}\n", to_string(by_where(x)));
    fmt::print("cond:  {}\n", to_string(by_cond(x)));
    fmt::print("print:\n");
    equal_bits = equal_bits && bitwise_equal(by_where(x), expected) && bitwise_equal(by_cond(x), expected) &&
                 bitwise_equal(with_print(x), expected);
  }
  fmt::print("equal bits to eager's if: {}\n", equal_bits ? "yes" : "no");
  return refused && equal_bits ? 0 : 1;
}
