// What graphs gain by computing what is behind a product, or a convolution, while its results are in the cache: the
// table of docs/fusion.md. Not a test.

#include <functional>
#include <string>

#include <fmt/format.h>

#include "framework/diptych.h"
#include "tests/speed/ratio.h"
#include "tests/support/speed_bound.h"

namespace diptych::testing {
namespace {

using Behind = std::function<Tensor(const Tensor& product, const Tensor& other)>;

struct Epilogue {
  const char* name;
  Behind compute;
};

const Epilogue kEpilogues[] = {
    {"gelu", [](const Tensor& x, const Tensor& /*other*/) { return gelu(x); }},
    {"relu", [](const Tensor& x, const Tensor& /*other*/) { return relu(x); }},
    {"residual", [](const Tensor& x, const Tensor& y) { return x + y; }},
    {"residual, relu", [](const Tensor& x, const Tensor& y) { return relu(x + y); }},
    {"six ops", [](const Tensor& x, const Tensor& y) { return y * 0.9 + (x * x + y) * 0.1 - x; }},
};

struct Case {
  std::string what;
  std::function<Tensor()> product;
};

/// The captured function with all epilogues, however small, and without them.
std::string ratio(const Case& of, const Epilogue& epilogue) {
  const Tensor other = Rng(3).normal(of.product().shape());
  const auto function = [&](bool fuses) {
    graph::JitOptions options;
    options.pipeline.least_epilogue_bytes = 0;
    if (!fuses) {
      options.pipeline.disabled = {"epilogue"};
    }
    return graph::JitFunction(
        [&](std::span<const Tensor> inputs, std::shared_ptr<void>& /*structure*/) {
          return std::vector<Tensor>{epilogue.compute(of.product(), inputs[0])};
        },
        std::move(options));
  };
  graph::JitFunction fused = function(true);
  graph::JitFunction apart = function(false);
  const auto calls_of = [&other](graph::JitFunction& called) {
    return block_of([&] { called.call(std::span(&other, 1), Location::current()); });
  };
  InterleavedRounds round({calls_of(apart), calls_of(fused)}, {}, {});
  return ratio_of(take_rounds(round, 15), 0, 1).text;
}

Case linear_case(std::int64_t m, std::int64_t n, std::int64_t k) {
  const Variable x(Rng(1).normal({m, k}), "x");
  const Variable w(Rng(2).normal({k, n}), "w");
  const Variable bias(Rng(4).normal({n}), "b");
  return {fmt::format("linear {} x {} x {}", m, n, k), [=] { return linear(x.value(), w.value(), bias.value()); }};
}

Case convolution_case(std::int64_t batch, std::int64_t channels, std::int64_t size, std::int64_t outputs,
                      std::int64_t kernel) {
  const Variable x(Rng(1).normal({batch, channels, size, size}), "x");
  const Variable w(Rng(2).normal({outputs, channels, kernel, kernel}), "w");
  return {fmt::format("conv {} x {} x {}^2, {} of {}^2", batch, channels, size, outputs, kernel), [=] {
            return conv2d(x.value(), w.value(), {}, {.padding = {kernel / 2, kernel / 2}});
          }};
}

void print_table() {
  fmt::print("| product |");
  for (const Epilogue& epilogue : kEpilogues) {
    fmt::print(" {} |", epilogue.name);
  }
  fmt::print("\n|---|--:|--:|--:|--:|--:|\n");
  for (const Case& of :
       {linear_case(64, 256, 128), linear_case(512, 128, 128), linear_case(512, 512, 128), linear_case(197, 768, 768),
        linear_case(197, 3072, 768), linear_case(4096, 64, 64), linear_case(6304, 256, 64),
        linear_case(6304, 1024, 256), linear_case(6304, 256, 1024), linear_case(4096, 4096, 64),
        convolution_case(1, 64, 56, 64, 3), convolution_case(1, 256, 14, 256, 3), convolution_case(1, 64, 56, 256, 1),
        convolution_case(8, 32, 56, 32, 3), convolution_case(8, 64, 56, 128, 1), convolution_case(1, 512, 7, 512, 3)}) {
    fmt::print("| {} |", of.what);
    for (const Epilogue& epilogue : kEpilogues) {
      fmt::print(" {} |", ratio(of, epilogue));
      std::fflush(stdout);
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace diptych::testing

int main() {
  diptych::testing::print_table();
  return 0;
}
