// z = tanh(z @ y), a hundred times, in eager and as a graph. With these inputs it is chaotic: a difference in one bit
// becomes a different result after a few rounds, so equal bits mean that every operation was the same.

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "framework/diptych.h"

using namespace diptych;

namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

/// Seconds that a call of `function` takes.
template <class Fn>
double timed(Fn& function, const Tensor& z, const Tensor& y) {
  const auto start = std::chrono::steady_clock::now();
  function(z, y);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main() {
  auto eager = [](const Tensor& z0, const Tensor& y) {
    Tensor z = z0;
    for (int round = 0; round < 100; ++round) {  // a host loop: the graph has all 200 ops, one after the other
      z = tanh(matmul(z, y));
    }
    return z;
  };
  auto graph = jit(eager);

  Rng rng(1);
  const Tensor z = rng.normal({64, 64});
  const Tensor y = rng.normal({64, 64});
  const bool equal_bits = bitwise_equal(eager(z, y), graph(z, y));  // also warms both up

  std::vector<double> eager_times, graph_times;
  for (int i = 0; i < 30; ++i) {  // in turns, so that both see the same machine
    eager_times.push_back(timed(eager, z, y));
    graph_times.push_back(timed(graph, z, y));
  }
  fmt::print("eager: {:.0f} us a call (median of {})\n", median(eager_times) * 1e6, eager_times.size());
  fmt::print("graph: {:.0f} us a call, {} nodes\n", median(graph_times) * 1e6, graph.compiled()->graph()->nodes.size());
  fmt::print("equal bits: {}\n", equal_bits ? "yes" : "no");
  // The products dominate here, so the two hardly differ; what the graph saves in dispatch shows with small operands.
  // `diptych run reference/rigid` measures it properly, over processes and with intervals.
  return equal_bits ? 0 : 1;
}
