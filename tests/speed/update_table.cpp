// What graphs gain by computing the updates of many tensors as one kernel: a table of docs/fusion.md. Not a test.

#include <string>
#include <vector>

#include <fmt/format.h>

#include "framework/diptych.h"
#include "tests/speed/ratio.h"
#include "tests/support/speed_bound.h"

namespace diptych::testing {
namespace {

/// A step for so many tensors of so many elements, alone in its graph.
template <class Optimizer, class Options>
std::string ratio(int tensors, std::int64_t elements, const Options& settings) {
  Variables parameters;
  std::vector<Tensor> gradients;
  for (int i = 0; i < tensors; ++i) {
    parameters.emplace_back(Rng(static_cast<std::uint64_t>(i)).normal({elements}), "p");
    gradients.push_back(Rng(static_cast<std::uint64_t>(i) + 1000).normal({elements}));
  }
  Optimizer optimizer(parameters, settings);
  const auto function = [&](bool joins) {
    graph::JitOptions options;
    options.pipeline.least_fused_bytes =
        joins ? 0 : passes::kLeastFusedBytes;  // 0: the smallest tensors are joined, too
    if (!joins) {
      options.pipeline.disabled = {"multi-tensor"};
    }
    return graph::JitFunction(
        [&](std::span<const Tensor> inputs, std::shared_ptr<void>& /*structure*/) {
          optimizer.step(inputs);
          return std::vector<Tensor>();
        },
        std::move(options));
  };
  graph::JitFunction joined = function(true);
  graph::JitFunction apart = function(false);
  const auto calls_of = [&](graph::JitFunction& called) {
    return block_of([&] { called.call(gradients, Location::current()); });
  };
  InterleavedRounds round({calls_of(apart), calls_of(joined)}, {}, {});
  return ratio_of(take_rounds(round, 15), 0, 1).text;
}

void print_table() {
  fmt::print("| tensors x elements | Adam | SGD | SGD with momentum |\n|---|--:|--:|--:|\n");
  for (const auto& [tensors, elements] : {std::pair{100, 16}, {100, 256}, {100, 1024}, {100, 4096}, {30, 65536}}) {
    fmt::print("| {} x {} | {} | {} | {} |\n", tensors, elements,
               ratio<optim::Adam>(tensors, elements, optim::AdamOptions{}),
               ratio<optim::SGD>(tensors, elements, optim::SGDOptions{}),
               ratio<optim::SGD>(tensors, elements, optim::SGDOptions{.momentum = 0.9}));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace diptych::testing

int main() {
  diptych::testing::print_table();
  return 0;
}
