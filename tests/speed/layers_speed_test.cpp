// Convolutions, poolings and normalisations against libtorch: one thread, the same shapes, interleaved rounds. libtorch
// keeps from the forward pass what its backward pass needs (indices, statistics); Diptych computes that again. So the
// second figure is for both passes together.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/autograd/backward.h"
#include "framework/diptych.h"
#include "tests/speed/torch_layers.h"
#include "tests/support/speed_bound.h"

namespace diptych {
namespace {

using torch_reference::Convolution;
using torch_reference::Planes;
using Call = std::function<void()>;

struct LayerCase {
  Call forward;
  Call both;
  Call torch_forward;
  Call torch_both;
};

constexpr double kBound = 1.2;

void expect_layer_no_slower(const std::string& what, const std::function<LayerCase()>& make, Call LayerCase::*ours,
                            Call LayerCase::*theirs) {
  testing::expect_bounds(
      [&] {
        const LayerCase layer = make();
        return std::vector<testing::Block>{testing::block_of(layer.*ours), testing::block_of(layer.*theirs)};
      },
      {{.what = what, .limit = kBound, .unit = "of libtorch's time"}}, {.block_seconds = 0.004});
}

void expect_speed(const std::string& name, const std::function<LayerCase()>& make) {
  expect_layer_no_slower(name + ", forward", make, &LayerCase::forward, &LayerCase::torch_forward);
  expect_layer_no_slower(name + ", forward and backward", make, &LayerCase::both, &LayerCase::torch_both);
}

/// A function of x and weights, and its gradients by all of them.
template <class Fn>
LayerCase layer_case(const Fn& fn, const std::vector<Tensor>& inputs, const Call& torch_forward,
                     const Call& torch_backward) {
  const Tensor dy = Rng(2).normal(fn(inputs).shape());
  return {[=] { const Tensor y = fn(inputs); },
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
  const Conv2dOptions options{{c.stride}, {c.padding}, {1}, c.groups};
  const std::string name = fmt::format("conv {}x{}x{}x{}, {} of {}x{}, stride {}, {} groups", c.batch, c.channels,
                                       c.size, c.size, c.outputs, c.kernel, c.kernel, c.stride, c.groups);
  expect_speed(name, [&] {
    Rng rng(1);
    return layer_case([options](const std::vector<Tensor>& in) { return conv2d(in[0], in[1], {}, options); },
                      {rng.normal({c.batch, c.channels, c.size, c.size}),
                       rng.normal({c.outputs, c.channels / c.groups, c.kernel, c.kernel})},
                      torch_reference::convolution(c), torch_reference::convolution_backward(c));
  });
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
  expect_speed(fmt::format("max_pool2d 3x3 s2, batch {}", p.batch), [&] {
    return layer_case(
        [](const std::vector<Tensor>& in) { return max_pool2d(in[0], {3}, {.stride = {2}, .padding = {1}}); },
        {Rng(1).normal({p.batch, p.channels, p.size, p.size})}, torch_reference::max_pool(p),
        torch_reference::max_pool_backward(p));
  });
}

TEST_P(LayerSpeed, AvgPool) {
  const Planes p{GetParam(), 64, 112};
  expect_speed(fmt::format("avg_pool2d 3x3 s2, batch {}", p.batch), [&] {
    return layer_case(
        [](const std::vector<Tensor>& in) { return avg_pool2d(in[0], {3}, {.stride = {2}, .padding = {1}}); },
        {Rng(1).normal({p.batch, p.channels, p.size, p.size})}, torch_reference::avg_pool(p),
        torch_reference::avg_pool_backward(p));
  });
}

TEST_P(LayerSpeed, BatchNorm) {
  const Planes p{GetParam(), 64, 56};
  const Variable mean(zeros({64}));
  const Variable variance(ones({64}));
  expect_speed(fmt::format("batch_norm, batch {}", p.batch), [&] {
    return layer_case([=](const std::vector<Tensor>& in) { return batch_norm(in[0], in[1], in[2], mean, variance); },
                      {Rng(1).normal({p.batch, p.channels, p.size, p.size}), ones({64}), zeros({64})},
                      torch_reference::batch_norm(p), torch_reference::batch_norm_backward(p));
  });
}

TEST(LayerNormSpeed, AgainstLibtorch) {
  expect_speed("layer_norm 6272x256", [] {
    return layer_case([](const std::vector<Tensor>& in) { return layer_norm(in[0], {256}, in[1], in[2]); },
                      {Rng(1).normal({6272, 256}), ones({256}), zeros({256})}, torch_reference::layer_norm(6272, 256),
                      torch_reference::layer_norm_backward(6272, 256));
  });
}

INSTANTIATE_TEST_SUITE_P(Batch, LayerSpeed, ::testing::Values(1, 8));

}  // namespace
}  // namespace diptych
