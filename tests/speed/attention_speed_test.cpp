// Products and attention against libtorch, in the same interleaved rounds.

#include <functional>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/autograd/backward.h"
#include "framework/diptych.h"
#include "framework/dispatch/tape.h"
#include "tests/speed/torch_attention.h"
#include "tests/support/speed_bound.h"

namespace diptych {
namespace {

using Forward = std::function<Tensor(const std::vector<Tensor>&)>;

/// Like the reference: inputs, one run, then the time of `iterations` runs.
double our_seconds(const Forward& forward, const std::vector<Shape>& shapes, bool gradients, int iterations) {
  Rng rng(1);
  std::vector<Tensor> inputs;
  for (const Shape& shape : shapes) {
    const Tensor input = rng.normal(shape);
    inputs.push_back(gradients ? autograd::watch(input) : input);
  }
  const auto once = [&] {
    const Tensor result = forward(inputs);
    if (gradients) {
      const Tensor total = sum(result);
      const auto by = autograd::gradients(std::span(&total, 1), inputs, {}, {true, 0}, Location::current());
      asm volatile("" : : "r"(by.gradients.data()) : "memory");
    }
    asm volatile("" : : "r"(result.body()) : "memory");
  };
  once();
  return testing::seconds_of(iterations, once);
}

/// Our time is at most this share of theirs.
void expect_no_slower(const std::string& name, double limit, const testing::Block& ours, const testing::Block& theirs) {
  testing::expect_ratio(name, limit, ours, theirs, "of libtorch's time");
}

/// Where the same BLAS calls take nearly all of the time, theirs may be faster by this much.
constexpr double kSame = 1.1;

class Gradients : public ::testing::TestWithParam<bool> {};

Tensor attention_block(const std::vector<Tensor>& inputs) {
  const Tensor& x = inputs[0];
  const std::vector<Tensor> parts =
      unbind(permute(reshape(linear(x, inputs[1], inputs[2]), {2, 196, 3, 8, 32}), {2, 0, 3, 1, 4}));
  const Tensor mixed = scaled_dot_product_attention(parts[0], parts[1], parts[2]);
  return linear(reshape(transpose(mixed, 1, 2), {2, 196, 256}), inputs[3], inputs[4]);
}

TEST_P(Gradients, AttentionBlockIsNoSlowerThanLibtorch) {
  const bool gradients = GetParam();
  const std::vector<Shape> shapes = {{2, 196, 256}, {256, 768}, {768}, {256, 256}, {256}};
  expect_no_slower(
      "attention block", 1, [&](int n) { return our_seconds(attention_block, shapes, gradients, n); },
      [&](int n) { return torch_reference::attention_block_seconds(gradients, n); });
}

TEST_P(Gradients, AttentionIsNoSlowerThanLibtorch) {
  const bool gradients = GetParam();
  for (const std::int64_t length : {64, 256, 1024, 2048}) {
    for (const bool is_causal : {false, true}) {
      const std::int64_t heads = length > 1000 ? 2 : 8;
      const Shape shape{1, heads, length, 64};
      const auto forward = [&](const std::vector<Tensor>& qkv) {
        return scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {.is_causal = is_causal});
      };
      for (const bool whole : {false, true}) {
        expect_no_slower(
            fmt::format("attention {} x {}{}, against {}", heads, length, is_causal ? ", causal" : "",
                        whole ? "its function" : "its ops"),
            kSame,
            [&](int n) {
              return our_seconds(forward, {shape, shape, shape}, gradients, n);
            },
            [&](int n) { return torch_reference::attention_seconds(heads, length, is_causal, whole, gradients, n); });
      }
    }
  }
}

TEST_P(Gradients, LinearIsNoSlowerThanLibtorch) {
  const bool gradients = GetParam();
  struct Case {
    std::int64_t batch, rows, in, out;
  };
  for (const Case& c : {Case{1, 16, 64, 64}, Case{2, 196, 256, 768}, Case{4, 32, 1024, 1024}}) {
    const auto forward = [](const std::vector<Tensor>& in) { return linear(in[0], in[1], in[2]); };
    const std::vector<Shape> shapes = {{c.batch, c.rows, c.in}, {c.in, c.out}, {c.out}};
    expect_no_slower(
        fmt::format("linear {}x{}x{} to {}", c.batch, c.rows, c.in, c.out), kSame,
        [&](int n) { return our_seconds(forward, shapes, gradients, n); },
        [&](int n) { return torch_reference::linear_seconds(c.batch, c.rows, c.in, c.out, gradients, n); });
  }
}

TEST_P(Gradients, MatmulIsNoSlowerThanLibtorch) {
  const bool gradients = GetParam();
  struct Case {
    std::int64_t batch, m, k, n;
  };
  for (const Case& c : {Case{0, 8, 8, 8}, Case{0, 32, 32, 32}, Case{0, 256, 256, 256}, Case{64, 8, 8, 8},
                        Case{16, 64, 64, 64}, Case{16, 196, 32, 196}}) {
    const auto forward = [](const std::vector<Tensor>& in) { return matmul(in[0], in[1]); };
    const std::vector<Shape> shapes = c.batch == 0 ? std::vector<Shape>{{c.m, c.k}, {c.k, c.n}}
                                                   : std::vector<Shape>{{c.batch, c.m, c.k}, {c.batch, c.k, c.n}};
    expect_no_slower(
        fmt::format("matmul {} x {}x{}x{}", c.batch, c.m, c.k, c.n), kSame,
        [&](int n) { return our_seconds(forward, shapes, gradients, n); },
        [&](int n) { return torch_reference::matmul_seconds(c.batch, c.m, c.k, c.n, gradients, n); });
  }
}

INSTANTIATE_TEST_SUITE_P(Speed, Gradients, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "training" : "inference"; });

}  // namespace
}  // namespace diptych
