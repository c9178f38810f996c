// The speed of matrix products, ours and OpenBLAS's, on the shapes of the suites: the table of docs/kernels.md. Not a
// test.
//
//   gemm_table             OpenBLAS with the kernel that it chooses; OPENBLAS_CORETYPE=SkylakeX, Haswell: another one
//   DIPTYCH_ISA=avx2 gemm_table

#include <cmath>
#include <memory>

#include <cblas.h>
#include <fmt/format.h>

#include "framework/core/rng.h"
#include "framework/kernels/gemm.h"
#include "framework/kernels/matrix_product.h"
#include "tests/speed/ratio.h"
#include "tests/support/speed_bound.h"
#include "workloads/harness/probes/limits.h"

namespace diptych::testing {
namespace {

using kernels::Matrix;
using kernels::PackedMatrix;

struct Case {
  std::int64_t m, n, k;
  const char* transposed;  ///< "", "A" or "B": lies transposed in memory
  const char* where;
};

constexpr Case kCases[] = {
    {64, 128, 64, "", "mlp/digits"},
    {64, 64, 128, "", "mlp/digits"},
    {64, 10, 64, "", "mlp/digits"},
    {128, 64, 64, "A", "mlp/digits, gradient"},
    {64, 128, 64, "B", "mlp/digits, gradient"},
    {32, 1024, 1024, "", "mlp/simplenet"},
    {32, 1024, 1024, "B", "mlp/simplenet, gradient"},
    {1024, 1024, 32, "A", "mlp/simplenet, gradient"},
    {392, 768, 256, "", "attention/block"},
    {392, 256, 256, "", "attention/block"},
    {196, 196, 32, "B", "attention/block, scores"},
    {196, 32, 196, "", "attention/block, mix"},
    {392, 256, 768, "B", "attention/block, gradient"},
    {256, 768, 392, "A", "attention/block, gradient"},
    {196, 256, 768, "", "vit/reference-b1"},
    {197, 256, 256, "", "vit/reference-b1"},
    {6272, 256, 768, "", "vit/reference-train"},
    {6304, 256, 256, "", "vit/reference-train"},
    {256, 256, 6304, "A", "vit/reference-train, gradient"},
    {197, 192, 192, "", "vit/tiny"},
    {197, 768, 192, "", "vit/tiny"},
    {197, 192, 768, "", "vit/tiny"},
    {197, 197, 64, "B", "vit/tiny, vit/b16, scores"},
    {197, 64, 197, "", "vit/tiny, vit/b16, mix"},
    {197, 768, 768, "", "vit/b16"},
    {197, 3072, 768, "", "vit/b16"},
    {197, 768, 3072, "", "vit/b16"},
    {1, 1000, 768, "", "vit/b16, head"},
    {512, 128, 128, "", "gpt/mini"},
    {512, 512, 128, "", "gpt/mini"},
    {512, 128, 512, "", "gpt/mini"},
    {128, 512, 512, "A", "gpt/mini, gradient"},
    {1, 1024, 1024, "", "decoding"},
    {512, 512, 512, "", ""},
};

/// A dense matrix, perhaps transposed in memory.
Matrix<float> matrix(const Tensor& data, std::int64_t rows, std::int64_t columns, bool transposed) {
  return transposed ? Matrix<float>{data.data<float>(), rows, columns, 1, rows}
                    : Matrix<float>{data.data<float>(), rows, columns, columns, 1};
}

void print_table() {
  constexpr int kRounds = 25;
  double logs[2] = {0, 0};
  fmt::print(
      "| M x N x K | lies transposed | where | GFLOP/s | of OpenBLAS | packed ahead |\n|---|---|---|--:|--:|--:|\n");
  for (const Case& c : kCases) {
    const bool a_transposed = c.transposed[0] == 'A';
    const bool b_transposed = c.transposed[0] == 'B';
    const Tensor a = Rng(1).normal({c.m, c.k});
    const Tensor b = Rng(2).normal({c.k, c.n});
    Tensor out = Rng(3).normal({c.m, c.n});
    const Matrix<float> left = matrix(a, c.m, c.k, a_transposed);
    const Matrix<float> right = matrix(b, c.k, c.n, b_transposed);
    float* result = out.mutable_data<float>();
    std::vector<float> memory(static_cast<std::size_t>(PackedMatrix<float>::size(c.k, c.n)) + 16);
    void* place = memory.data();
    std::size_t room = memory.size() * sizeof(float);
    std::align(64, room - 64, place, room);
    const auto packed = PackedMatrix<float>::pack(right, static_cast<float*>(place));
    MeasuringOptions options;
    options.block_seconds = 0.002;
    InterleavedRounds round(
        {block_of([=] { kernels::multiply(left, right, static_cast<const float*>(nullptr), result); }), block_of([=] {
           kernels::multiply(left, packed, static_cast<const float*>(nullptr), kernels::Result<float>{result, c.n});
         }),
         block_of([=] {
           cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans,
                       b_transposed ? CblasTrans : CblasNoTrans, static_cast<blasint>(c.m), static_cast<blasint>(c.n),
                       static_cast<blasint>(c.k), 1, left.data, static_cast<blasint>(a_transposed ? c.m : c.k),
                       right.data, static_cast<blasint>(b_transposed ? c.k : c.n), 0, result,
                       static_cast<blasint>(c.n));
         })},
        {}, options);
    const std::vector<std::vector<double>> rounds = take_rounds(round, kRounds);
    const Ratio ratios[2] = {ratio_of(rounds, 0, 2), ratio_of(rounds, 1, 2)};
    for (std::size_t i = 0; i < 2; ++i) {
      logs[i] += std::log(ratios[i].median);
    }
    const double flops = 2.0 * static_cast<double>(c.m * c.n * c.k);
    fmt::print("| {} x {} x {} | {} | {} | {:.0f} | {} | {} |\n", c.m, c.n, c.k, c.transposed, c.where,
               flops / median_seconds(rounds, 0) / 1e9, ratios[0].text, ratios[1].text);
  }
  const auto count = static_cast<double>(std::size(kCases));
  fmt::print("| geometric mean | | | | {:.2f} | {:.2f} |\n", std::exp(logs[0] / count), std::exp(logs[1] / count));
}

}  // namespace
}  // namespace diptych::testing

int main() {
  fmt::print("{}; kernels for {}; registers alone: {:.0f} GFLOP/s\n\n", diptych::kernels::blas_description(),
             diptych::kIsaNames[static_cast<std::size_t>(diptych::active_isa())],
             diptych::workloads::peak_flops_per_second(diptych::active_isa()) / 1e9);
  diptych::testing::print_table();
  return 0;
}
