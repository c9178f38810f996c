// What graphs gain by multiplying an input with the weights of q, k and v at once: if these lay side by side, and by
// the pass merge-products. A table of docs/fusion.md. Not a test.

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "framework/diptych.h"
#include "tests/speed/ratio.h"
#include "tests/support/speed_bound.h"

namespace diptych::testing {
namespace {

/// `count` products of `columns` columns each.
graph::JitFunction products_of(std::int64_t depth, std::int64_t columns, int count, bool packs) {
  std::vector<std::pair<Tensor, Tensor>> layers;
  for (int i = 0; i < count; ++i) {
    layers.emplace_back(Rng(2 + i).normal({depth, columns}), Rng(7 + i).normal({columns}));
  }
  graph::JitOptions options;
  if (!packs) {
    options.pipeline.disabled = {passes::kPacking};
  }
  return graph::JitFunction(
      [layers](std::span<const Tensor> inputs, std::shared_ptr<void>& /*structure*/) {
        std::vector<Tensor> results;
        for (const auto& [weight, bias] : layers) {
          results.push_back(linear(inputs[0], weight, bias));
        }
        return results;
      },
      std::move(options));
}

/// Of three layers, each with an op behind it, with the pass merge-products or without.
graph::JitFunction layers_of(std::int64_t depth, std::int64_t columns, bool merges) {
  std::vector<std::pair<Tensor, Tensor>> layers;
  for (std::uint64_t i = 0; i < 3; ++i) {
    layers.emplace_back(Rng(2 + i).normal({depth, columns}), Rng(7 + i).normal({columns}));
  }
  graph::JitOptions options;
  if (!merges) {
    options.pipeline.disabled = {"merge-products"};
  }
  return graph::JitFunction(
      [layers](std::span<const Tensor> inputs, std::shared_ptr<void>& /*structure*/) {
        std::vector<Tensor> results;
        for (const auto& [weight, bias] : layers) {
          results.push_back(relu(linear(inputs[0], weight, bias)));
        }
        return results;
      },
      std::move(options));
}

/// The time of `other` over that of `one`.
std::string ratio(const Tensor& x, graph::JitFunction&& one, graph::JitFunction&& other) {
  const auto calls_of = [&x](graph::JitFunction& function) {
    return block_of([&] { function.call(std::span(&x, 1), Location::current()); });
  };
  InterleavedRounds round({calls_of(one), calls_of(other)}, {}, {});
  return ratio_of(take_rounds(round, 25), 0, 1).text;
}

void print_table() {
  fmt::print(
      "| three of M x N x K | side by side, packed once | side by side, weights that change | `merge-products` |\n");
  fmt::print("|---|--:|--:|--:|\n");
  for (const auto& [m, n, k] : {std::tuple{1, 32, 32},
                                {1, 128, 128},
                                {1, 256, 256},
                                {1, 768, 768},
                                {2, 64, 64},
                                {8, 32, 32},
                                {8, 64, 64},
                                {8, 128, 128},
                                {32, 32, 32},
                                {32, 64, 64},
                                {8, 768, 768},
                                {64, 128, 128},
                                {512, 128, 128},
                                {1088, 32, 32},
                                {197, 192, 192},
                                {197, 256, 256},
                                {392, 256, 256},
                                {6304, 256, 256},
                                {197, 768, 768}}) {
    const Tensor x = Rng(1).normal({m, k});
    const auto side_by_side = [&, n = n, k = k](bool packs) {
      return ratio(x, products_of(k, n, 3, packs), products_of(k, 3 * n, 1, packs));
    };
    fmt::print("| {} x {} x {} | {} | {} | {} |\n", m, n, k, side_by_side(true), side_by_side(false),
               ratio(x, layers_of(k, n, false), layers_of(k, n, true)));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace diptych::testing

int main() {
  diptych::testing::print_table();
  return 0;
}
