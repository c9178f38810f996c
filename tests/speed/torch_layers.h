#pragma once

#include <cstdint>
#include <functional>

/// Layers of libtorch on random inputs of their own, each as a call that computes them once. One thread, no tape.
namespace diptych::torch_reference {

struct Convolution {
  std::int64_t batch, channels, size, outputs, kernel, stride, padding, groups;
};
std::function<void()> convolution(const Convolution& c);
/// The gradients by input and weight.
std::function<void()> convolution_backward(const Convolution& c);

struct Planes {
  std::int64_t batch, channels, size;
};
/// 3x3, stride 2, padding 1. Backward: with what the forward pass has kept.
std::function<void()> max_pool(const Planes& p);
std::function<void()> max_pool_backward(const Planes& p);
std::function<void()> avg_pool(const Planes& p);
std::function<void()> avg_pool_backward(const Planes& p);

/// Training mode with running statistics; backward: by input, weight and bias.
std::function<void()> batch_norm(const Planes& p);
std::function<void()> batch_norm_backward(const Planes& p);
std::function<void()> layer_norm(std::int64_t rows, std::int64_t columns);
std::function<void()> layer_norm_backward(std::int64_t rows, std::int64_t columns);
std::function<void()> group_norm(const Planes& p, std::int64_t groups);
std::function<void()> group_norm_backward(const Planes& p, std::int64_t groups);

}  // namespace diptych::torch_reference
