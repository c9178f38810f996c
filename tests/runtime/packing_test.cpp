// Graphs pack the right sides of products once. Whoever changes the elements, and however, the next call sees it.

#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/kernels/gemm.h"
#include "framework/kernels/matrix_product.h"
#include "tests/support/with_gemm.h"
#include "tests/support/with_isa.h"
#include "tests/support/with_threads.h"

namespace diptych::testing {
namespace {

Tensor normal(std::uint64_t seed, const Shape& shape, DType dtype = DType::float32) {
  return Rng(seed).normal(shape, 0, 1, dtype);
}

class Packing : public ::testing::TestWithParam<int> {
 protected:
  Packing() : tiles_(kernels::Gemm::tiles) {}
  /// Rows of the left side: one, few, and as many as pay.
  std::int64_t rows() const { return GetParam(); }

 private:
  WithGemm tiles_;
};

TEST_P(Packing, OfEveryLayoutHasTheBitsOfEager) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const Tensor x = normal(1, {rows(), 300}, dtype);
    const Tensor stack = normal(2, {2, rows(), 300}, dtype);
    const Tensor bias = normal(3, {70}, dtype);
    const Tensor whole = normal(4, {300, 140}, dtype);
    const Tensor column = normal(5, {300, 1}, dtype);
    for (const Tensor& w : {normal(6, {300, 70}, dtype), transpose(normal(7, {70, 300}, dtype)),
                            slice(whole, 1, 70, 140), slice(whole, 1, 0, 140, 2)}) {
      const auto function = [&](const Tensor& a, const Tensor& b) {
        return std::vector<Tensor>{matmul(a, w), linear(a, w, bias), linear(b, w, bias), matmul(b, w),
                                   matmul(a, column)};
      };
      auto graph = jit(function);
      const std::vector<Tensor> eager = function(x, stack);
      for (int call = 0; call < 3; ++call) {
        const std::vector<Tensor> results = graph(x, stack);
        for (std::size_t i = 0; i < eager.size(); ++i) {
          EXPECT_TRUE(bitwise_equal(eager[i], results[i])) << name_of(dtype) << ", call " << call << ", result " << i;
        }
      }
    }
  }
}

TEST_P(Packing, IsDoneOnceWhereItPays) {
  const Tensor x = normal(1, {rows(), 300});
  // Panels of both kinds, and a last one with a part of a vector.
  const Tensor w = normal(2, {300, 530});
  auto graph = jit([&](const Tensor& a) { return matmul(a, w); });
  const auto packed = [&] { return graph.compiled()->executable()->stats().packed_bytes; };
  graph(x);
  graph(x);
  const std::size_t once = packed();
  EXPECT_EQ(once > 0, rows() <= 250) << "more rows pay for packing in each call";
  EXPECT_EQ(once, (once > 0 ? 1U : 0U) * sizeof(float) *
                      static_cast<std::size_t>(kernels::PackedMatrix<float>::size(300, 530)));
  graph(x);
  EXPECT_EQ(packed(), once) << "nothing is packed again";
}

TEST_P(Packing, OnEveryInstructionSetAndNumberOfThreads) {
  const Tensor x = normal(1, {rows(), 300});
  const Tensor w = normal(2, {300, 530});
  const Tensor bias = normal(3, {530});
  const auto function = [&](const Tensor& a) { return std::vector<Tensor>{matmul(a, w), linear(a, w, bias)}; };
  const std::vector<Tensor> eager = function(x);
  for (int i = 0; i < kIsaCount && is_supported(static_cast<Isa>(i)); ++i) {
    const WithIsa with(static_cast<Isa>(i));
    auto graph = jit(function);  // what is packed is packed for this instruction set
    for (int threads = 1; threads <= 4; ++threads) {
      const WithThreads some(threads, true);
      const std::vector<Tensor> results = graph(x);
      for (std::size_t k = 0; k < eager.size(); ++k) {
        EXPECT_TRUE(bitwise_equal(eager[k], results[k])) << i << ", threads: " << threads << ", result " << k;
      }
    }
  }
}

TEST_P(Packing, FollowsAVariableThatChanges) {
  Variable weight(normal(1, {40, 50}), "weight");
  const Tensor x = normal(2, {rows(), 40});
  const auto infer = [&](const Tensor& a) { return matmul(a, weight.value()); };
  auto graph = jit(infer);
  // Another graph, which writes the variable where it lies.
  auto step = jit([&](const Tensor& a) {
    weight.assign(weight.value() * 0.5);
    return sum(a);
  });
  const auto expect_follows = [&](const char* change) {
    EXPECT_TRUE(bitwise_equal(infer(x), graph(x))) << change;
    for (int call = 0; call < 2; ++call) {
      EXPECT_TRUE(bitwise_equal(infer(x), graph(x))) << change << ", again";
    }
  };
  expect_follows("nothing");
  for (std::uint64_t i = 0; i < 3; ++i) {
    step(x);
    expect_follows("a graph wrote it");
    weight.assign(normal(10 + i, {40, 50}));  // perhaps where the old value was
    expect_follows("another value");
    no_grad([&] { add_(weight.value(), full({40, 50}, 0.25)); });
    expect_follows("an update in place");
    no_grad([&] { fill_(select(weight.value(), 0, 3), 7); });
    expect_follows("an update through a view");
    weight.value().mutable_data<float>()[5] = 3;
    expect_follows("a written element");
  }
}

TEST_P(Packing, FollowsACapturedTensorThatChanges) {
  Tensor w = normal(1, {40, 50});
  const Tensor x = normal(2, {rows(), 40});
  const auto infer = [&](const Tensor& a) { return matmul(a, w); };
  auto graph = jit(infer);
  auto other = jit([&](const Tensor& a) { return matmul(a, w) + 1; });
  for (int i = 0; i < 3; ++i) {
    for (int call = 0; call < 3; ++call) {
      EXPECT_TRUE(bitwise_equal(infer(x), graph(x)));
      EXPECT_TRUE(bitwise_equal(infer(x) + 1, other(x))) << "both have packed it";
    }
    no_grad([&] { mul_(w, full({}, 1.5)); });
  }
}

TEST(PackingOfConvolutions, HasTheBitsOfEagerAndFollowsTheWeights) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    Variable weight(normal(1, {32, 40, 3, 3}, dtype), "weight");
    const Tensor bias = normal(2, {32}, dtype);
    const Tensor x = normal(3, {1, 40, 7, 7}, dtype);
    const auto infer = [&](const Tensor& a) { return relu(conv2d(a, weight.value(), bias, {.padding = {1}})); };
    auto graph = jit(infer);
    for (const double scale : {1.0, 0.5, 3.0}) {
      no_grad([&] { mul_(weight.value(), full({}, scale, dtype)); });
      for (int call = 0; call < 3; ++call) {
        EXPECT_TRUE(bitwise_equal(infer(x), graph(x))) << name_of(dtype) << ", scale " << scale << ", call " << call;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Packing, ::testing::Values(1, 3, 32, 250, 251));

}  // namespace
}  // namespace diptych::testing
