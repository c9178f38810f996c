// What graphs gain by packing the right sides of products once: the table of docs/kernels.md. Not a test.

#include <tuple>

#include <fmt/format.h>

#include "framework/diptych.h"
#include "tests/speed/ratio.h"
#include "tests/support/speed_bound.h"

namespace diptych::testing {
namespace {

graph::JitFunction product_with(const Tensor& w, bool packs) {
  graph::JitOptions options;
  if (!packs) {
    options.pipeline.disabled = {passes::kPacking};
  }
  return graph::JitFunction(
      [w](std::span<const Tensor> inputs, std::shared_ptr<void>& /*structure*/) {
        return std::vector<Tensor>{matmul(inputs[0], w)};
      },
      std::move(options));
}

void print_row(std::int64_t m, std::int64_t n, std::int64_t k, bool is_transposed) {
  const Tensor x = Rng(1).normal({m, k});
  const Tensor w = is_transposed ? transpose(Rng(2).normal({n, k})) : Rng(2).normal({k, n});
  graph::JitFunction packed = product_with(w, true);
  graph::JitFunction loose = product_with(w, false);
  const auto calls_of = [&x](graph::JitFunction& function) {
    return block_of([&] { function.call(std::span(&x, 1), Location::current()); });
  };
  InterleavedRounds round({calls_of(packed), calls_of(loose)}, {}, {});
  const std::vector<std::vector<double>> rounds = take_rounds(round, 25);
  fmt::print("| {} x {} x {} | {} | {} |\n", m, n, k, is_transposed ? "B" : "", ratio_of(rounds, 0, 1).text);
}

void print_table() {
  fmt::print("| M x N x K | lies transposed | not packed |\n|---|---|--:|\n");
  for (const auto& [m, n, k, is_transposed] : {std::tuple{1, 1000, 768, false},
                                               {1, 1024, 1024, false},
                                               {1, 1024, 1024, true},
                                               {4, 1024, 1024, false},
                                               {16, 512, 512, false},
                                               {32, 1024, 1024, false},
                                               {32, 1024, 1024, true},
                                               {64, 512, 128, false},
                                               {64, 128, 512, false},
                                               {64, 128, 128, false},
                                               {100, 256, 256, false},
                                               {100, 768, 768, false},
                                               {150, 768, 768, true},
                                               {180, 256, 256, true},
                                               {197, 768, 768, false},
                                               {197, 3072, 768, false},
                                               {197, 768, 3072, false},
                                               {392, 768, 256, false}}) {
    print_row(m, n, k, is_transposed);
  }
}

}  // namespace
}  // namespace diptych::testing

int main() {
  diptych::testing::print_table();
  return 0;
}
