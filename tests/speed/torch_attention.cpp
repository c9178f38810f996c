#include "torch_attention.h"

#include <chrono>
#include <cmath>
#include <optional>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <vector>

namespace diptych::torch_reference {
namespace {

using torch::Tensor;

template <class Fn>
double seconds_of(Fn&& fn, const std::vector<Tensor>& inputs, bool gradients, int iterations) {
  const auto once = [&] {
    const Tensor result = fn();
    if (gradients) {
      const auto by = torch::autograd::grad({result.sum()}, inputs);
      asm volatile("" : : "r"(by.data()) : "memory");
    }
    asm volatile("" : : "r"(result.unsafeGetTensorImpl()) : "memory");
  };
  std::optional<at::NoGradGuard> guard;
  if (!gradients) {
    guard.emplace();
  }
  once();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < iterations; ++i) {
    once();
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Tensor random(at::IntArrayRef shape, bool gradients) {
  torch::set_num_threads(1);
  return torch::randn(shape).set_requires_grad(gradients);
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, bool is_causal) {
  Tensor scores = torch::matmul(q, k.transpose(-2, -1)) * (1 / std::sqrt(static_cast<double>(q.size(-1))));
  if (is_causal) {
    const Tensor hidden = torch::ones({q.size(-2), k.size(-2)}, torch::kBool).tril().logical_not();
    scores = scores.masked_fill(hidden, -INFINITY);
  }
  return torch::matmul(torch::softmax(scores, -1), v);
}

}  // namespace

double matmul_seconds(std::int64_t batch, std::int64_t m, std::int64_t k, std::int64_t n, bool gradients,
                      int iterations) {
  const Tensor a = batch > 0 ? random({batch, m, k}, gradients) : random({m, k}, gradients);
  const Tensor b = batch > 0 ? random({batch, k, n}, gradients) : random({k, n}, gradients);
  return seconds_of([&] { return torch::matmul(a, b); }, {a, b}, gradients, iterations);
}

double linear_seconds(std::int64_t batch, std::int64_t rows, std::int64_t in, std::int64_t out, bool gradients,
                      int iterations) {
  const Tensor x = random({batch, rows, in}, gradients);
  const Tensor weight = random({out, in}, gradients);
  const Tensor bias = random({out}, gradients);
  return seconds_of([&] { return torch::linear(x, weight, bias); }, {x, weight, bias}, gradients, iterations);
}

double attention_seconds(std::int64_t heads, std::int64_t length, bool is_causal, bool whole, bool gradients,
                         int iterations) {
  const Tensor q = random({1, heads, length, 64}, gradients);
  const Tensor k = random({1, heads, length, 64}, gradients);
  const Tensor v = random({1, heads, length, 64}, gradients);
  const auto once = [&] {
    return whole ? std::get<0>(at::_scaled_dot_product_attention(q, k, v, {}, 0.0, false, is_causal))
                 : attention(q, k, v, is_causal);
  };
  return seconds_of(once, {q, k, v}, gradients, iterations);
}

double attention_block_seconds(bool gradients, int iterations) {
  const Tensor x = random({2, 196, 256}, gradients);
  const Tensor in = random({768, 256}, gradients);
  const Tensor in_bias = random({768}, gradients);
  const Tensor out = random({256, 256}, gradients);
  const Tensor out_bias = random({256}, gradients);
  const auto block = [&] {
    const std::vector<Tensor> parts =
        torch::linear(x, in, in_bias).reshape({2, 196, 3, 8, 32}).permute({2, 0, 3, 1, 4}).unbind(0);
    const Tensor mixed = attention(parts[0], parts[1], parts[2], false);
    return torch::linear(mixed.transpose(1, 2).reshape({2, 196, 256}), out, out_bias);
  };
  return seconds_of(block, {x, in, in_bias, out, out_bias}, gradients, iterations);
}

}  // namespace diptych::torch_reference
