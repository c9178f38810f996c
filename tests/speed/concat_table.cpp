// What graphs gain by writing the parts of a concat where they lie in its result: a table of docs/fusion.md. Not a
// test.

#include <string>
#include <vector>

#include <fmt/format.h>

#include "framework/diptych.h"
#include "tests/speed/ratio.h"
#include "tests/support/speed_bound.h"

namespace diptych::testing {
namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

/// With parts in their places over without. The functions overwrite nothing that dies, which the same step would do.
std::string ratio(const Function& function, const std::vector<Tensor>& inputs) {
  const auto compiled = [&](bool places) {
    graph::JitOptions options;
    if (!places) {
      options.pipeline.disabled = {passes::kInPlace};
    }
    return jit(function, std::move(options));
  };
  auto placed = compiled(true);
  auto copied = compiled(false);
  InterleavedRounds round({block_of([&] { copied(inputs); }), block_of([&] { placed(inputs); })}, {}, {});
  return ratio_of(take_rounds(round, 15), 0, 1).text;
}

Tensor normal(const Shape& shape, std::uint64_t seed) { return Rng(seed).normal(shape); }

std::string of_elements(std::int64_t rows) {
  return ratio(
      [](const std::vector<Tensor>& x) {
        return concat({relu(x[0]), neg(x[1])}, 0);
      },
      {normal({rows, 256}, 1), normal({rows, 256}, 2)});
}

std::string of_products(std::int64_t rows) {
  return ratio(
      [](const std::vector<Tensor>& x) {
        return concat({matmul(x[0], x[2]), matmul(x[1], x[2])}, 0);
      },
      {normal({rows, 64}, 1), normal({rows, 64}, 2), normal({64, 256}, 3)});
}

std::string of_embeddings(std::int64_t rows) {
  const Tensor indices = Rng(1).integers({rows}, 0, 1000);
  return ratio(
      [](const std::vector<Tensor>& x) {
        return concat({embedding(x[0], x[1]), embedding(x[0], x[2])}, 1);
      },
      {indices, normal({1000, 128}, 2), normal({1000, 128}, 3)});
}

/// The front of mlp/wide-features: 128 columns.
std::string of_features(std::int64_t rows) {
  std::vector<Tensor> inputs = {Rng(1).integers({rows}, 0, 1000), normal({rows, 32}, 2)};
  for (std::uint64_t table = 0; table < 4; ++table) {
    inputs.push_back(normal({1000, 24}, 3 + table));
  }
  return ratio(
      [](const std::vector<Tensor>& x) {
        const Tensor& numbers = x[1];
        return concat({embedding(x[0], x[2]), embedding(x[0], x[3]), embedding(x[0], x[4]), embedding(x[0], x[5]),
                       sign(numbers) * log1p(abs(numbers))},
                      1);
      },
      inputs);
}

void print_table() {
  fmt::print(
      "| rows of 256, f32 | `relu`, `neg`, axis 0 | two products, K = 64, axis 0 | two embeddings, axis 1 | four "
      "embeddings, numbers, axis 1 |\n|--:|--:|--:|--:|--:|\n");
  for (const std::int64_t rows : {4, 64, 512, 4096}) {
    fmt::print("| {} | {} | {} | {} | {} |\n", rows, of_elements(rows), of_products(rows), of_embeddings(rows),
               of_features(rows));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace diptych::testing

int main() {
  diptych::testing::print_table();
  return 0;
}
