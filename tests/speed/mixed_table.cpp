// A step whose model is a graph and whose loss is eager, beside the same in eager and as one graph: the table of
// docs/fusion.md. Not a test.

#include <fmt/format.h>

#include "framework/diptych.h"
#include "tests/speed/ratio.h"
#include "tests/support/speed_bound.h"

namespace diptych::testing {
namespace {

void print_row(std::int64_t batch, std::int64_t width) {
  Rng rng(1);
  const auto weight = [&](const char* name) { return Variable(rng.normal({width, width}, 0, 0.05), name); };
  const Variables weights{weight("w1"), weight("w2"), weight("w3")};
  const auto model = [=](const Tensor& x) {
    return matmul(gelu(matmul(gelu(matmul(x, weights[0].value())), weights[1].value())), weights[2].value());
  };
  const auto step_of = [&](auto forward) {
    return value_and_grad([forward](const Tensor& x) mutable { return mean(square(forward(x))); },
                          {.arguments = {}, .weights = weights});
  };
  auto eager = step_of(model);
  auto mixed = step_of(jit(model));
  auto graph = jit([step = step_of(model)](const Tensor& x) mutable { return step(x).weights; });
  const Tensor x = rng.normal({batch, width});
  InterleavedRounds round({block_of([&] { eager(x); }), block_of([&] { mixed(x); }), block_of([&] { graph(x); })}, {},
                          {});
  const std::vector<std::vector<double>> rounds = take_rounds(round, 15);
  fmt::print("| {} x {} | {} | {} |\n", batch, width, ratio_of(rounds, 0, 1).text, ratio_of(rounds, 0, 2).text);
}

}  // namespace
}  // namespace diptych::testing

int main() {
  fmt::print("| batch x width | the model as a graph, over eager | the whole step, over eager |\n|---|--:|--:|\n");
  diptych::testing::print_row(64, 64);
  diptych::testing::print_row(256, 512);
  diptych::testing::print_row(1024, 1024);
  return 0;
}
