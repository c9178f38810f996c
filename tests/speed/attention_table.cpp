// The speed of attention against the ops that it joins: the table of docs/kernels.md. Not a test.

#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "framework/diptych.h"
#include "tests/speed/ratio.h"
#include "tests/support/speed_bound.h"
#include "tests/support/with_gemm.h"

namespace diptych::testing {
namespace {

Tensor composition(const Tensor& q, const Tensor& k, const Tensor& v, bool is_causal) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.shape().back()));
  return matmul(masked_softmax(matmul(q, transpose(k)), {}, is_causal, scale), v);
}

/// Contenders: attention, its ops, its ops with OpenBLAS.
std::vector<std::vector<double>> rounds_of(const std::function<void(bool joined)>& call, double block_seconds) {
  MeasuringOptions options;
  options.block_seconds = block_seconds;
  InterleavedRounds round({block_of([&] { call(true); }), block_of([&] { call(false); }), block_of([&] {
                             const WithGemm blas(kernels::Gemm::openblas);
                             call(false);
                           })},
                          {}, options);
  return take_rounds(round, 15);
}

void print_row(bool is_causal, std::int64_t heads, std::int64_t width, std::int64_t length) {
  // As a projection to queries, keys and values leaves them.
  const Tensor x = Rng(1).normal({1, length, 3, heads, width});
  const auto part = [&](int i) { return transpose(select(x, 2, i), 1, 2); };
  const Tensor q = part(0);
  const Tensor k = part(1);
  const Tensor v = part(2);
  const Tensor weights = Rng(2).normal({1, heads, length, width});
  const auto attend = [is_causal](bool joined) {
    return [=](const Tensor& a, const Tensor& b, const Tensor& c) {
      return joined ? scaled_dot_product_attention(a, b, c, {.is_causal = is_causal}) : composition(a, b, c, is_causal);
    };
  };
  const auto forward = rounds_of([&](bool joined) { attend(joined)(q, k, v); }, 0.01);
  const auto both = rounds_of(
      [&](bool joined) {
        const auto f = attend(joined);
        grad([&](const Tensor& a, const Tensor& b, const Tensor& c) { return sum(mul(f(a, b, c), weights)); },
             std::vector{0, 1, 2})(q, k, v);
      },
      0.01);
  fmt::print("| {} x {} | {} | {} | {:.3f} ms | {} | {} | {:.3f} ms | {} | {} |\n", heads, width, length,
             is_causal ? "causal" : "", median_seconds(forward, 0) * 1e3, ratio_of(forward, 0, 2).text,
             ratio_of(forward, 0, 1).text, median_seconds(both, 0) * 1e3, ratio_of(both, 0, 2).text,
             ratio_of(both, 0, 1).text);
}

void print_table() {
  fmt::print("{}; kernels for {}\n\n", kernels::blas_description(), kIsaNames[static_cast<std::size_t>(active_isa())]);
  fmt::print(
      "| heads | length | | forward | ops by OpenBLAS | ops by tiles | and gradients | ops by OpenBLAS | ops by tiles "
      "|\n"
      "|---|--:|---|--:|--:|--:|--:|--:|--:|\n");
  for (const bool is_causal : {false, true}) {
    for (const auto& [heads, width] : {std::pair{8, 32}, std::pair{12, 64}}) {
      for (const int length : {64, 197, 512, 1024, 2048}) {
        print_row(is_causal, heads, width, length);
      }
    }
  }
}

}  // namespace
}  // namespace diptych::testing

int main() {
  diptych::testing::print_table();
  return 0;
}
