// The speed of convolutions, with the weights as they lie and packed ahead, and of their gradients: the table of
// docs/kernels.md. Not a test.
//
//   convolution_table
//   DIPTYCH_ISA=avx2 convolution_table

#include <fmt/format.h>

#include "framework/core/rng.h"
#include "framework/core/storage.h"
#include "framework/kernels/convolution.h"
#include "tests/speed/ratio.h"
#include "tests/support/speed_bound.h"
#include "workloads/harness/probes/limits.h"

namespace diptych::testing {
namespace {

using kernels::ConvolutionShape;
using kernels::WindowAxis;

struct Case {
  std::int64_t batch, channels, size, outputs, kernel, stride, padding;
  const char* where;
};

constexpr Case kCases[] = {
    {1, 3, 224, 64, 7, 2, 3, "conv/resnet18, stem"},
    {1, 64, 56, 64, 3, 1, 1, "conv/resnet18"},
    {1, 64, 56, 128, 3, 2, 1, "conv/resnet18"},
    {1, 64, 56, 128, 1, 2, 0, "conv/resnet18, shortcut"},
    {1, 128, 28, 128, 3, 1, 1, "conv/resnet18"},
    {1, 128, 28, 256, 3, 2, 1, "conv/resnet18"},
    {1, 256, 14, 256, 3, 1, 1, "conv/resnet18"},
    {1, 256, 14, 512, 3, 2, 1, "conv/resnet18"},
    {1, 512, 7, 512, 3, 1, 1, "conv/resnet18"},
    {8, 64, 56, 64, 3, 1, 1, "conv/block"},
    {32, 1, 8, 32, 3, 1, 1, "conv/digits"},
    {32, 32, 4, 64, 3, 1, 1, "conv/digits"},
    {1, 3, 224, 256, 16, 16, 0, "vit/reference-b1, patches"},
    {32, 3, 224, 256, 16, 16, 0, "vit/reference-train, patches"},
    {1, 256, 56, 64, 1, 1, 0, "bottleneck"},
    {1, 64, 56, 256, 1, 1, 0, "bottleneck"},
    {1, 1024, 14, 256, 1, 1, 0, "bottleneck"},
    {1, 512, 7, 2048, 1, 1, 0, "bottleneck"},
};

ConvolutionShape shape_of(const Case& c) {
  WindowAxis axis;
  axis.input = c.size;
  axis.kernel = c.kernel;
  axis.stride = c.stride;
  axis.before = c.padding;
  axis.output = (c.size + 2 * c.padding - c.kernel) / c.stride + 1;
  return {c.batch, 1, c.channels, c.outputs, axis, axis};
}

void print_table() {
  constexpr int kRounds = 25;
  fmt::print(
      "| batch | channels | plane | outputs | kernel, stride | where | GFLOP/s | packed ahead | time, of packed | by x "
      "| by weight |\n"
      "|--:|--:|--:|--:|---|---|--:|--:|--:|--:|--:|\n");
  for (const Case& c : kCases) {
    const ConvolutionShape shape = shape_of(c);
    const Tensor x = Rng(1).normal({c.batch, c.channels, c.size, c.size});
    const Tensor weight = Rng(2).normal({c.outputs, shape.depth()});
    const Tensor bias = Rng(3).normal({c.outputs});
    Tensor y = Rng(4).normal({c.batch, c.outputs, shape.rows.output, shape.columns.output});
    Tensor dx = Rng(5).normal(x.shape());
    Tensor dw = Rng(6).normal(weight.shape());
    const float* const from = x.data<float>();
    const float* const by = weight.data<float>();
    const float* const start = bias.data<float>();
    float* const to = y.mutable_data<float>();
    float* const to_x = dx.mutable_data<float>();
    float* const to_weight = dw.mutable_data<float>();
    const std::size_t bytes = kernels::packed_weights_bytes(shape, DType::float32);
    const StorageRef packed = allocate_storage(bytes);
    if (bytes > 0) {
      kernels::pack_weights(shape, DType::float32, by, packed->data());
    }
    const void* const ahead = bytes > 0 ? packed->data() : nullptr;
    MeasuringOptions options;
    options.block_seconds = 0.002;
    InterleavedRounds round(
        {block_of([=] { kernels::convolution(shape, DType::float32, from, by, start, to); }),
         block_of([=] { kernels::convolution(shape, DType::float32, from, by, start, to, nullptr, ahead); }),
         block_of([=] { kernels::convolution_input_gradient(shape, DType::float32, to, by, to_x); }),
         block_of([=] { kernels::convolution_weight_gradient(shape, DType::float32, from, to, to_weight); })},
        {}, options);
    const std::vector<std::vector<double>> rounds = take_rounds(round, kRounds);
    const double flops = 2.0 * static_cast<double>(y.numel() * shape.depth());
    const auto rate = [&](std::size_t i) { return flops / median_seconds(rounds, i) / 1e9; };
    fmt::print("| {} | {} | {} x {} | {} | {} x {}, {} | {} | {:.0f} | {} | {} | {:.0f} | {:.0f} |\n", c.batch,
               c.channels, c.size, c.size, c.outputs, c.kernel, c.kernel, c.stride, c.where, rate(0),
               bytes > 0 ? fmt::format("{:.0f}", rate(1)) : "-", bytes > 0 ? ratio_of(rounds, 1, 0).text : "-", rate(2),
               rate(3));
  }
}

}  // namespace
}  // namespace diptych::testing

int main() {
  fmt::print("kernels for {}; registers alone: {:.0f} GFLOP/s\n\n",
             diptych::kIsaNames[static_cast<std::size_t>(diptych::active_isa())],
             diptych::workloads::peak_flops_per_second(diptych::active_isa()) / 1e9);
  diptych::testing::print_table();
  return 0;
}
