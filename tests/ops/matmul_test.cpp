// Products of matrices against three loops in double, for every layout that BLAS can take and those that it can't.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/layouts.h"
#include "tests/ops/reference_array.h"

namespace diptych::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

/// sum_k a[..., i, k] b[..., k, j], leading axes broadcast: NumPy's definition for two axes and more.
std::vector<double> product(const Tensor& x, const Tensor& y, const Shape& result) {
  const ReferenceArray a(x);
  const ReferenceArray b(y);
  const auto row_of = [](const ReferenceArray& array, const Index& index, std::int64_t i, std::int64_t j) {
    const auto rank = static_cast<std::size_t>(array.shape.rank());
    Index own(index.end() - static_cast<std::ptrdiff_t>(rank), index.end());
    for (std::size_t axis = 0; axis + 2 < rank; ++axis) {
      own[axis] = array.shape[static_cast<int>(axis)] == 1 ? 0 : own[axis];
    }
    own[rank - 2] = i;
    own[rank - 1] = j;
    return array[own];
  };
  return by_index(result, [&](const Index& index) {
    double total = 0;
    for (std::int64_t k = 0; k < a.shape.back(); ++k) {
      total += row_of(a, index, index[index.size() - 2], k) * row_of(b, index, k, index.back());
    }
    return total;
  });
}

void expect_near(const Tensor& actual, const std::vector<double>& expected, double tolerance = 1e-12) {
  const std::vector<double> values = actual.to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance * (1 + std::fabs(expected[i]))) << "element " << i;
  }
}

Tensor random_matrix(const Shape& shape, std::uint64_t seed = 1) {
  return Rng(seed).normal(shape, 0, 1, DType::float64);
}

TEST(Matmul, EveryLayoutGivesTheProduct) {
  struct Case {
    Shape a, b, result;
  };
  for (const Case& c :
       {Case{{5, 7}, {7, 3}, {5, 3}}, Case{{1, 7}, {7, 1}, {1, 1}}, Case{{5, 1}, {1, 3}, {5, 3}},
        Case{{4, 5, 7}, {7, 3}, {4, 5, 3}}, Case{{5, 7}, {4, 7, 3}, {4, 5, 3}}, Case{{4, 5, 7}, {4, 7, 3}, {4, 5, 3}},
        Case{{2, 1, 5, 7}, {3, 7, 3}, {2, 3, 5, 3}}, Case{{2, 3, 1, 7}, {7, 3}, {2, 3, 1, 3}},
        Case{{1, 1, 5, 7}, {2, 1, 7, 3}, {2, 1, 5, 3}}, Case{{3, 2, 5, 1}, {1, 4}, {3, 2, 5, 4}}}) {
    const Tensor x = random_matrix(c.a, 1);
    const Tensor y = random_matrix(c.b, 2);
    const std::vector<double> expected = product(x, y, c.result);
    for (const Tensor& a : layouts(x)) {
      for (const Tensor& b : layouts(y)) {
        const Tensor z = matmul(a, b);
        ASSERT_EQ(z.shape(), c.result);
        expect_near(z, expected);
      }
    }
  }
}

TEST(Matmul, HeadsOfAttentionNeedNoCopy) {
  const Tensor qkv = random_matrix({2, 6, 3, 4, 5});
  const std::vector<Tensor> parts = unbind(permute(qkv, {2, 0, 3, 1, 4}));
  const Tensor scores = matmul(parts[0], transpose(parts[1]));
  expect_near(scores, product(contiguous(parts[0]), contiguous(transpose(parts[1])), {2, 4, 6, 6}));
  expect_near(matmul(scores, parts[2]), product(scores, contiguous(parts[2]), {2, 4, 6, 5}));
}

TEST(Matmul, VectorsAreRowsAndColumns) {
  const Tensor v = Tensor::from({1.0, 2.0, 3.0}, {3});
  const Tensor m = counting({3, 2}, DType::float64);
  EXPECT_EQ(matmul(v, v).shape(), Shape{});
  EXPECT_EQ(matmul(v, v).item(), 14);
  EXPECT_EQ(matmul(v, m).to_vector<double>(), (std::vector<double>{16, 22}));
  EXPECT_EQ(matmul(transpose(m), v).to_vector<double>(), (std::vector<double>{16, 22}));
  EXPECT_EQ(matmul(random_matrix({4, 2, 3}), v).shape(), (Shape{4, 2}));
  EXPECT_EQ(matmul(v, random_matrix({4, 3, 2})).shape(), (Shape{4, 2}));
  EXPECT_EQ(dot(v, v).item(), 14);
  EXPECT_EQ(outer(v, Tensor::from({1.0, 10.0}, {2})).to_vector<double>(), (std::vector<double>{1, 10, 2, 20, 3, 30}));
  EXPECT_EQ(bmm(random_matrix({4, 2, 3}), random_matrix({4, 3, 5})).shape(), (Shape{4, 2, 5}));
}

TEST(Matmul, EmptyAxesGiveZerosOrNothing) {
  EXPECT_EQ(matmul(zeros({2, 0}), zeros({0, 3})).to_vector<double>(), std::vector<double>(6, 0));
  EXPECT_EQ(matmul(zeros({4, 2, 0}), zeros({0, 3})).to_vector<double>(), std::vector<double>(24, 0));
  EXPECT_EQ(matmul(zeros({0, 2, 3}), zeros({3, 4})).shape(), (Shape{0, 2, 4}));
  EXPECT_EQ(matmul(zeros({0, 2, 3}), zeros({1, 3, 4})).shape(), (Shape{0, 2, 4}));
  EXPECT_EQ(matmul(zeros({0}), zeros({0})).item(), 0);
  EXPECT_EQ(linear(zeros({2, 0}), zeros({0, 2}), counting({2})).to_vector<double>(), (std::vector<double>{0, 1, 0, 1}));
}

TEST(Matmul, NaNAndInfinityComeThrough) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from({0.0F, 1.0F}, {1, 2});
  EXPECT_THAT(matmul(x, Tensor::from({inf, 1.0F}, {2, 1})).to_vector<double>(), Each(::testing::IsNan()));
  EXPECT_EQ(matmul(x, Tensor::from({1.0F, inf}, {2, 1})).item(), inf);
  EXPECT_THAT(linear(x, zeros({2, 1}), Tensor::from({NAN}, {1})).to_vector<double>(), Each(::testing::IsNan()));
}

TEST(Matmul, ErrorsSayWhatDoesNotFit) {
  EXPECT_THAT(message_of<ShapeError>([] { matmul(zeros({2, 2, 3}), zeros({3, 3, 4})); }), HasSubstr("leading axes"));
  EXPECT_THAT(message_of<ShapeError>([] { matmul(zeros({}), zeros({3})); }), HasSubstr("matrices"));
  EXPECT_THAT(message_of<ShapeError>([] { matmul(zeros({2}), zeros({3})); }), HasSubstr("(2 vs 3)"));
  EXPECT_THAT(message_of<DTypeError>([] {
                matmul(ones({2, 2}, DType::int64), ones({2, 2}, DType::int64));
              }),
              HasSubstr("floating-point"));
  EXPECT_EQ(matmul(ones({1, 2}), ones({2, 1}, DType::float64)).dtype(), DType::float64);
  EXPECT_THAT(message_of<ShapeError>([] { bmm(zeros({1, 2, 3}), zeros({4, 3, 2})); }), HasSubstr("batches differ"));
  EXPECT_THAT(message_of<ShapeError>([] { bmm(zeros({2, 3}), zeros({3, 2})); }), HasSubstr("3 axes"));
  EXPECT_THAT(message_of<ShapeError>([] { dot(zeros({2, 3}), zeros({3})); }), HasSubstr("1 axis"));
  EXPECT_THAT(message_of<ShapeError>([] {
                linear(zeros({2, 3}), zeros({3, 4}), zeros({3}));
              }),
              HasSubstr("bias of [4]"));
  EXPECT_THAT(message_of<ShapeError>([] { linear(zeros({2, 3}), zeros({1, 3, 4})); }), HasSubstr("[in, out]"));
  const Tensor wide = expand(zeros({1, 1}), {1, std::int64_t{1} << 32});
  EXPECT_THAT(message_of<ShapeError>([&] { matmul(wide, transpose(wide)); }), HasSubstr("32 bits"));
  const Tensor tall = expand(zeros({1, 1}), {std::int64_t{1} << 30, 1});
  const Tensor many = zeros({1, 1, 1});
  EXPECT_THAT(message_of<ShapeError>([&] {
                matmul(expand(many, {1 << 29, 1 << 29, 1}), transpose(tall));
              }),
              HasSubstr("too many elements"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                linear(expand(many, {1 << 29, 1 << 29, 1}), transpose(tall));
              }),
              HasSubstr("too many elements"));
}

TEST(Linear, IsTheProductPlusTheBias) {
  // 700 columns: BLAS goes through the sum in several blocks.
  for (const std::int64_t in : {1, 5, 700}) {
    for (const bool batched : {false, true}) {
      const Shape shape = batched ? Shape{3, 4, in} : Shape{12, in};
      const Shape result = batched ? Shape{3, 4, 6} : Shape{12, 6};
      const Tensor x = random_matrix(shape);
      const Tensor weight = random_matrix({in, 6}, 2);
      const Tensor bias = random_matrix({6}, 3);
      std::vector<double> expected = product(x, weight, result);
      expect_near(linear(x, weight), expected);
      const std::vector<double> added = bias.to_vector<double>();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] += added[i % 6];
      }
      for (const Tensor& layout : layouts(x)) {
        expect_near(linear(layout, weight, bias), expected, 1e-11);
      }
      expect_near(linear(x, weight, select(stack({bias, bias}, 1), 1, 0)), expected, 1e-11);
    }
  }
  EXPECT_EQ(linear(ones({3}), ones({3, 2}), ones({2})).to_vector<double>(), (std::vector<double>{4, 4}));
}

TEST(Matmul, TheGradientOfAWeightIsOneProduct) {
  const Tensor x = random_matrix({4, 5, 7});
  const Tensor weight = random_matrix({7, 3}, 2);
  const Tensor cotangent = random_matrix({4, 5, 3}, 3);
  auto gradients = jit([](const Tensor& a, const Tensor& b, const Tensor& c) {
    return grad([&](const Tensor& p, const Tensor& q) { return sum(mul(matmul(p, q), c)); }, std::vector{0, 1})(a, b);
  });
  const std::vector<Tensor> result = gradients(x, weight, cotangent);
  expect_near(result[0], product(cotangent, contiguous(transpose(weight)), {4, 5, 7}));
  expect_near(result[1], product(contiguous(transpose(reshape(x, {20, 7}))), reshape(cotangent, {20, 3}), {7, 3}));
  for (const graph::Node& node : gradients.compiled()->graph()->nodes) {
    EXPECT_NE(gradients.compiled()->graph()->types[node.output()].shape, (Shape{4, 7, 3}))
        << "a product per matrix, then a sum";
  }
}

TEST(Matmul, GradientsOfBroadcastBatchesAreSums) {
  // One matrix on the left of many, and axes of length 1 against longer ones, against finite differences.
  for (const auto& [a, b] : {std::pair{Shape{2, 3}, Shape{4, 3, 5}}, std::pair{Shape{1, 2, 3}, Shape{2, 2, 3, 5}},
                             std::pair{Shape{2, 1, 2, 3}, Shape{1, 4, 3, 5}}, std::pair{Shape{3}, Shape{4, 3, 5}},
                             std::pair{Shape{4, 2, 3}, Shape{3}}}) {
    const Tensor x = random_matrix(a, 1);
    const Tensor y = random_matrix(b, 2);
    const Tensor weights = random_matrix(matmul(x, y).shape(), 3);
    const auto f = [&](const Tensor& p, const Tensor& q) { return sum(mul(matmul(p, q), weights)); };
    const std::vector<Tensor> gradients = grad(f, std::vector{0, 1})(x, y);
    const Tensor dx = random_matrix(a, 4);
    const Tensor dy = random_matrix(b, 5);
    // f is bilinear: f(x + dx, y) - f(x, y) = f(dx, y), to the last digits.
    EXPECT_NEAR(sum(mul(gradients[0], dx)).item(), f(dx, y).item(), 1e-12);
    EXPECT_NEAR(sum(mul(gradients[1], dy)).item(), f(x, dy).item(), 1e-12);
    EXPECT_EQ(gradients[0].shape(), a);
    EXPECT_EQ(gradients[1].shape(), b);
  }
}

}  // namespace
}  // namespace diptych::testing
