// Convolutions, poolings and normalisations against libtorch: one thread, the same shapes, interleaved rounds (ABBA),
// the median of their ratios. libtorch keeps from the forward pass what its backward pass needs (indices, statistics);
// Diptych computes that again. So the second figure is of both passes together.

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/speed/torch_layers.h"

namespace diptych {
namespace {

using torch_reference::Convolution;
using torch_reference::Planes;
using Call = std::function<void()>;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double seconds_of(const Call& call, int count) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    call();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Our time by theirs.
double ratio_of(const std::string& what, const Call& ours, const Call& theirs, int rounds) {
  ours();
  theirs();
  const int count = std::max(1, static_cast<int>(0.004 / seconds_of(theirs, 1)));
  std::vector<double> ratios;
  std::vector<double> mine;
  for (int round = 0; round < rounds; ++round) {
    const double first = seconds_of(ours, count);
    const double peer = seconds_of(theirs, count) + seconds_of(theirs, count);
    mine.push_back((first + seconds_of(ours, count)) / 2 / count);
    ratios.push_back(mine.back() * 2 * count / peer);
  }
  fmt::print("{}: {:.0f} us, {:.2f} of libtorch's time\n", what, median(mine) * 1e6, median(ratios));
  return median(ratios);
}

struct LayerCase {
  std::string name;
  Call forward;
  Call both;
  Call torch_forward;
  Call torch_both;
};

constexpr double kBound = 1.2;

/// What a few rounds flag, many decide: other programs may have had the machine.
void expect_ratio(const std::string& what, const Call& ours, const Call& theirs) {
  double ratio = ratio_of(what, ours, theirs, 11);
  if (ratio > kBound) {
    ratio = ratio_of(what + ", again", ours, theirs, 55);
  }
  EXPECT_LE(ratio, kBound) << what;
}

void expect_speed(const LayerCase& c) {
  expect_ratio(c.name + ", forward", c.forward, c.torch_forward);
  expect_ratio(c.name + ", forward and backward", c.both, c.torch_both);
}

/// A function of x and weights, and its gradients by all of them.
template <class Fn>
LayerCase layer_case(std::string name, const Fn& fn, const std::vector<Tensor>& inputs, const Call& torch_forward,
                     const Call& torch_backward) {
  const Tensor dy = Rng(2).normal(fn(inputs).shape());
  return {std::move(name), [=] { const Tensor y = fn(inputs); },
          [=] {
            std::vector<Tensor> watched;
            for (const Tensor& input : inputs) {
              watched.push_back(autograd::watch(input));
            }
            const std::uint64_t serial = autograd::next_serial();
            const Tensor y = fn(watched);
            autograd::gradients(std::span(&y, 1), watched, std::span(&dy, 1), {true, serial}, Location::current());
          },
          torch_forward,
          [=] {
            torch_forward();
            torch_backward();
          }};
}

class ConvolutionSpeed : public ::testing::TestWithParam<Convolution> {};

TEST_P(ConvolutionSpeed, AgainstLibtorch) {
  const Convolution& c = GetParam();
  Rng rng(1);
  const Conv2dOptions options{{c.stride}, {c.padding}, {1}, c.groups};
  expect_speed(layer_case(
      fmt::format("conv {}x{}x{}x{}, {} of {}x{}, stride {}, {} groups", c.batch, c.channels, c.size, c.size, c.outputs,
                  c.kernel, c.kernel, c.stride, c.groups),
      [options](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], {}, options); },
      {rng.normal({c.batch, c.channels, c.size, c.size}),
       rng.normal({c.outputs, c.channels / c.groups, c.kernel, c.kernel})},
      torch_reference::convolution(c), torch_reference::convolution_backward(c)));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ConvolutionSpeed,
    ::testing::Values(Convolution{1, 64, 56, 64, 3, 1, 1, 1}, Convolution{8, 64, 56, 64, 3, 1, 1, 1},
                      Convolution{1, 64, 56, 128, 3, 2, 1, 1}, Convolution{8, 64, 56, 128, 3, 2, 1, 1},
                      Convolution{1, 128, 28, 128, 3, 1, 1, 1}, Convolution{8, 128, 28, 128, 3, 1, 1, 1},
                      Convolution{1, 256, 14, 256, 3, 1, 1, 1}, Convolution{8, 256, 14, 256, 3, 1, 1, 1},
                      Convolution{1, 512, 7, 512, 3, 1, 1, 1}, Convolution{8, 512, 7, 512, 3, 1, 1, 1},
                      Convolution{1, 3, 224, 64, 7, 2, 3, 1}, Convolution{8, 3, 224, 64, 7, 2, 3, 1},
                      Convolution{8, 64, 56, 128, 1, 2, 0, 1}, Convolution{8, 256, 14, 1024, 1, 1, 0, 1},
                      Convolution{1, 64, 56, 64, 3, 1, 1, 64}, Convolution{8, 64, 56, 64, 3, 1, 1, 64},
                      Convolution{8, 128, 28, 128, 3, 2, 1, 128}));

class LayerSpeed : public ::testing::TestWithParam<std::int64_t> {};

TEST_P(LayerSpeed, MaxPool) {
  const Planes p{GetParam(), 64, 112};
  expect_speed(layer_case(
      fmt::format("max_pool2d 3x3 s2, batch {}", p.batch),
      [](const std::vector<Tensor>& in) { return max_pool2d(in[0], {3}, {.stride = {2}, .padding = {1}}); },
      {Rng(1).normal({p.batch, p.channels, p.size, p.size})}, torch_reference::max_pool(p),
      torch_reference::max_pool_backward(p)));
}

TEST_P(LayerSpeed, AvgPool) {
  const Planes p{GetParam(), 64, 112};
  expect_speed(layer_case(
      fmt::format("avg_pool2d 3x3 s2, batch {}", p.batch),
      [](const std::vector<Tensor>& in) { return avg_pool2d(in[0], {3}, {.stride = {2}, .padding = {1}}); },
      {Rng(1).normal({p.batch, p.channels, p.size, p.size})}, torch_reference::avg_pool(p),
      torch_reference::avg_pool_backward(p)));
}

TEST_P(LayerSpeed, BatchNorm) {
  const Planes p{GetParam(), 64, 56};
  const Variable mean(zeros({64}));
  const Variable variance(ones({64}));
  const LayerCase test = layer_case(
      fmt::format("batch_norm, batch {}", p.batch),
      [=](const std::vector<Tensor>& in) { return batch_norm(in[0], in[1], in[2], mean, variance); },
      {Rng(1).normal({p.batch, p.channels, p.size, p.size}), ones({64}), zeros({64})}, torch_reference::batch_norm(p),
      torch_reference::batch_norm_backward(p));
  expect_speed(test);
}

TEST(LayerNormSpeed, AgainstLibtorch) {
  const LayerCase test = layer_case(
      "layer_norm 6272x256", [](const std::vector<Tensor>& in) { return layer_norm(in[0], {256}, in[1], in[2]); },
      {Rng(1).normal({6272, 256}), ones({256}), zeros({256})}, torch_reference::layer_norm(6272, 256),
      torch_reference::layer_norm_backward(6272, 256));
  expect_speed(test);
}

INSTANTIATE_TEST_SUITE_P(Batch, LayerSpeed, ::testing::Values(1, 8));

}  // namespace
}  // namespace diptych
