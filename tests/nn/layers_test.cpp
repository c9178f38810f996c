// Layers against their formulas, written out in double; and in graphs, with their state.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych::nn {
namespace {

using ::testing::HasSubstr;

std::vector<double> doubles(const Tensor& x) { return x.to_vector<double>(); }

void expect_near(const Tensor& actual, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> values = doubles(actual);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << i;
  }
}

/// A row-major matrix of doubles: the reference's only type.
struct Matrix {
  std::size_t rows, columns;
  std::vector<double> at;
  double& operator()(std::size_t i, std::size_t j) { return at[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return at[i * columns + j]; }
};

Matrix affine(const Matrix& x, const Tensor& weight, const Tensor& bias) {
  const auto outputs = static_cast<std::size_t>(weight.shape()[1]);
  const Matrix w{x.columns, outputs, doubles(weight)};
  const std::vector<double> b = doubles(bias);
  Matrix y{x.rows, outputs, std::vector<double>(x.rows * outputs)};
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < outputs; ++j) {
      y(i, j) = b[j];
      for (std::size_t k = 0; k < x.columns; ++k) {
        y(i, j) += x(i, k) * w(k, j);
      }
    }
  }
  return y;
}

/// One example: q[L, width], memory[S, width]; `allowed(i, j)`.
template <class Allowed>
Matrix attention_reference(const Variables& p, std::size_t heads, const Matrix& x, const Matrix& memory,
                           const Allowed& allowed) {
  const Matrix q = affine(x, p[0], p[1]);
  const Matrix k = affine(memory, p[2], p[3]);
  const Matrix v = affine(memory, p[4], p[5]);
  Matrix mixed{q.rows, q.columns, std::vector<double>(q.at.size())};
  const std::size_t width = q.columns / heads;
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t i = 0; i < q.rows; ++i) {
      std::vector<double> weight(k.rows, 0.0);
      double total = 0;
      for (std::size_t j = 0; j < k.rows; ++j) {
        double score = 0;
        for (std::size_t c = h * width; c < (h + 1) * width; ++c) {
          score += q(i, c) * k(j, c);
        }
        weight[j] = allowed(i, j) ? std::exp(score / std::sqrt(static_cast<double>(width))) : 0;
        total += weight[j];
      }
      for (std::size_t j = 0; j < k.rows; ++j) {
        for (std::size_t c = h * width; c < (h + 1) * width; ++c) {
          mixed(i, c) += weight[j] / total * v(j, c);
        }
      }
    }
  }
  return affine(mixed, p[6], p[7]);
}

Matrix example(const Tensor& x, std::size_t n) {
  const auto rows = static_cast<std::size_t>(x.shape()[1]);
  const auto columns = static_cast<std::size_t>(x.shape()[2]);
  const std::vector<double> all = doubles(x);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(n * rows * columns);
  return {rows, columns, {begin, begin + static_cast<std::ptrdiff_t>(rows * columns)}};
}

/// Biases start as zeros; here they must matter.
void shake(const Variables& parameters, Rng& rng) {
  for (Variable parameter : parameters) {
    parameter.assign(rng.normal(parameter.type().shape, 0, 0.5, parameter.type().dtype));
  }
}

TEST(MultiHeadAttention, FollowsItsFormula) {
  Rng rng(1);
  const DType f64 = DType::float64;
  for (const bool causal : {false, true}) {
    MultiHeadAttention attention(6, 3, rng, {.is_causal = causal, .dtype = f64});
    shake(attention.parameters(), rng);
    const Tensor x = rng.normal({2, 4, 6}, 0, 1, f64);
    const Tensor y = attention(x);
    for (std::size_t n = 0; n < 2; ++n) {
      expect_near(slice(y, 0, static_cast<std::int64_t>(n), static_cast<std::int64_t>(n) + 1),
                  attention_reference(attention.parameters(), 3, example(x, n), example(x, n),
                                      [&](std::size_t i, std::size_t j) { return !causal || j <= i; })
                      .at,
                  1e-12);
    }
  }
}

TEST(MultiHeadAttention, CrossAttentionWithAMask) {
  Rng rng(2);
  const DType f64 = DType::float64;
  MultiHeadAttention attention(4, 2, rng, {.dtype = f64});
  shake(attention.parameters(), rng);
  const Tensor x = rng.normal({1, 3, 4}, 0, 1, f64);
  const Tensor memory = rng.normal({1, 5, 4}, 0, 1, f64);
  std::vector<bool> allowed;
  for (int i = 0; i < 15; ++i) {
    allowed.push_back(i % 5 == 0 || i % 3 != 0);
  }
  const Tensor mask = Tensor::from(allowed, {3, 5});
  for (const Mode how : {Mode::eager, Mode::graph}) {
    set_mode(how);
    expect_near(attention(x, memory, memory, mask),
                attention_reference(attention.parameters(), 2, example(x, 0), example(memory, 0),
                                    [&](std::size_t i, std::size_t j) { return allowed[i * 5 + j]; })
                    .at,
                1e-12);
    expect_near(attention(x, memory, memory),
                attention_reference(attention.parameters(), 2, example(x, 0), example(memory, 0),
                                    [](std::size_t, std::size_t) { return true; })
                    .at,
                1e-12);
  }
  set_mode(Mode::eager);
  EXPECT_THROW(MultiHeadAttention(6, 4, rng), Error);
  EXPECT_THROW(attention(zeros({1, 3, 5}, f64)), ShapeError);
  EXPECT_THROW(attention(zeros({3, 4}, f64)), ShapeError);
}

TEST(Conv2d, HasItsShapesAndStart) {
  Rng rng(1);
  Conv2d conv(4, 6, {3}, rng, {{.stride = {2}, .padding = {1}, .groups = 2}});
  EXPECT_EQ(conv.weight.type().shape, (Shape{6, 2, 3, 3}));
  EXPECT_EQ(conv(zeros({2, 4, 8, 9})).shape(), (Shape{2, 6, 4, 5}));
  const double bound = 1 / std::sqrt(18.0);  // 2 channels of 3 x 3
  EXPECT_LE(max(abs(conv.weight)).item(), bound);
  EXPECT_GT(max(abs(conv.weight)).item(), 0.9 * bound);
  EXPECT_EQ(Conv2d(1, 2, {3, 5}, rng, {.bias = false}).parameters().size(), 1U);
  EXPECT_EQ(Conv1d(3, 5, 4, rng)(zeros({2, 3, 10})).shape(), (Shape{2, 5, 7}));
  EXPECT_THROW(Conv2d(4, 6, {3}, rng, {{.groups = 4}}), Error);
  EXPECT_THROW(Conv2d(4, 6, {3, 3, 3}, rng), Error);
  EXPECT_THROW(Conv2d(4, 6, {0}, rng), Error);
  EXPECT_THROW(conv(zeros({2, 3, 8, 8})), ShapeError);
}

TEST(Conv2d, OfASumIsTheMeanTimesItsSize) {
  Rng rng(1);
  Conv2d conv(2, 1, {2}, rng, {.init = "ones", .bias_init = "constant(0.5)"});
  EXPECT_EQ(doubles(conv(ones({1, 2, 2, 3}))), (std::vector<double>{8.5, 8.5}));
}

TEST(Activation, ByName) {
  const Tensor x = Tensor::from({-1.0F, 2.0F}, {2});
  EXPECT_EQ(doubles((*activation_by_name("relu"))(x)), (std::vector<double>{0, 2}));
  EXPECT_EQ(doubles((*activation_by_name("identity"))(x)), (std::vector<double>{-1, 2}));
  EXPECT_TRUE(bitwise_equal((*activation_by_name("silu"))(x), silu(x)));
  EXPECT_EQ(doubles(LeakyReLU(0.5)(x)), (std::vector<double>{-0.5, 2}));
  try {
    activation_by_name("swish");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("gelu_tanh"));
  }
}

// PENDING

}  // namespace
}  // namespace diptych::nn
