// Values of ops against formulas and the C library.

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

Tensor floats_of(std::initializer_list<float> values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

TEST(Elementwise, FollowsTheCLibrary) {
  const Tensor x = Rng(3).uniform({1000}, -3, 3, DType::float64);
  const Tensor positive = abs(x) + 0.01;
  const struct {
    const char* name;
    Tensor actual;
    const Tensor& input;
    double (*expected)(double);
  } cases[] = {
      {"exp", exp(x), x, std::exp},
      {"tanh", tanh(x), x, std::tanh},
      {"erf", erf(x), x, std::erf},
      {"log", log(positive), positive, std::log},
      {"sqrt", sqrt(positive), positive, std::sqrt},
      {"sigmoid", sigmoid(x), x, [](double v) { return 1 / (1 + std::exp(-v)); }},
      {"gelu", gelu(x), x, [](double v) { return v * 0.5 * std::erfc(-v / std::sqrt(2.0)); }},
      {"reciprocal", reciprocal(positive), positive, [](double v) { return 1 / v; }},
      {"square", square(x), x, [](double v) { return v * v; }},
      {"relu", relu(x), x, [](double v) { return v > 0 ? v : 0; }},
  };
  for (const auto& c : cases) {
    const std::vector<double> in = c.input.to_vector<double>();
    const std::vector<double> out = c.actual.to_vector<double>();
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double expected = c.expected(in[i]);
      // gelu's tail cancels in 1 + erf: an absolute bound there.
      ASSERT_NEAR(out[i], expected, 1e-15 + 2e-15 * std::fabs(expected)) << c.name << " of " << in[i];
    }
  }
}

TEST(Elementwise, BroadcastsLikeNumPy) {
  const Tensor column = Tensor::from({1.0F, 2.0F}, {2, 1});
  const Tensor row = floats_of({10, 20, 30});
  EXPECT_THAT((column + row).to_vector<float>(), ElementsAre(11, 21, 31, 12, 22, 32));
  EXPECT_EQ((column + row).shape(), (Shape{2, 3}));
}

TEST(Elementwise, PromotesByTheTable) {
  for (int a = 0; a < kDTypeCount; ++a) {
    for (int b = 0; b < kDTypeCount; ++b) {
      const auto x = static_cast<DType>(a);
      const auto y = static_cast<DType>(b);
      if (x == DType::boolean && y == DType::boolean) {
        continue;
      }
      EXPECT_EQ(add(ones({2}, x), ones({2}, y)).dtype(), promote(x, y));
    }
  }
  EXPECT_EQ(promote(DType::int64, DType::float32), DType::float32);
  EXPECT_EQ(div(ones({1}, DType::int32), ones({1}, DType::int64)).dtype(), DType::float32);
}

TEST(Elementwise, NumbersTakeTheTensorsType) {
  const Tensor x = Tensor::from({1.0F, 2.0F}, {2});
  EXPECT_EQ((2.0 * x).dtype(), DType::float32);
  EXPECT_THAT((1.0 / (x * 2)).to_vector<float>(), ElementsAre(0.5F, 0.25F));
  EXPECT_EQ((Tensor::from({std::int64_t{3}}, {1}) + 1).dtype(), DType::int64);
  EXPECT_THAT((-x - 1).to_vector<float>(), ElementsAre(-2, -3));
}

TEST(Elementwise, IntegersWrapAround) {
  const Tensor most = Tensor::from({std::numeric_limits<std::int32_t>::max()}, {1});
  EXPECT_THAT((most + 1).to_vector<std::int32_t>(), ElementsAre(std::numeric_limits<std::int32_t>::min()));
}

TEST(Cast, TruncatesSaturatesAndZeroesNaN) {
  const Tensor x = floats_of({2.9F, -2.9F, 1e20F, -1e20F, NAN});
  EXPECT_THAT(cast(x, DType::int32).to_vector<std::int64_t>(), ElementsAre(2, -2, INT32_MAX, INT32_MIN, 0));
  EXPECT_THAT(cast(x, DType::int64).to_vector<std::int64_t>(), ElementsAre(2, -2, INT64_MAX, INT64_MIN, 0));
}

TEST(Reduction, SumsOverEveryChoiceOfAxes) {
  Rng rng(4);
  const Tensor x = rng.normal({3, 4, 5}, 0, 1, DType::float64);
  const std::vector<double> values = x.to_vector<double>();
  for (int mask = 1; mask < 8; ++mask) {
    Axes axes;
    for (int axis = 0; axis < 3; ++axis) {
      if ((mask >> axis & 1) != 0) {
        axes.push_back(axis);
      }
    }
    std::map<std::array<int, 3>, double> expected;
    for (int i = 0; i < 60; ++i) {
      std::array<int, 3> at = {i / 20, i / 5 % 4, i % 5};
      for (const std::int64_t axis : axes) {
        at[static_cast<std::size_t>(axis)] = 0;
      }
      expected[at] += values[static_cast<std::size_t>(i)];
    }
    const std::vector<double> actual = sum(x, axes).to_vector<double>();
    ASSERT_EQ(actual.size(), expected.size());
    std::size_t i = 0;
    for (const auto& [at, value] : expected) {
      EXPECT_NEAR(actual[i++], value, 1e-13) << "axes " << to_string(axes);
    }
  }
}

TEST(Reduction, IsTheSameForEveryLayout) {
  const Tensor x = Rng(5).normal({123, 77});
  const Tensor strided = transpose(contiguous(transpose(x)));  // the same elements, column-major
  ASSERT_FALSE(strided.is_contiguous());
  EXPECT_TRUE(bitwise_equal(sum(x, {0}), sum(strided, {0})));
  EXPECT_TRUE(bitwise_equal(sum(x, {1}), sum(strided, {1})));
  EXPECT_TRUE(bitwise_equal(sum(x), sum(strided)));
  // A column alone sums to the same bits as in the matrix.
  EXPECT_TRUE(bitwise_equal(sum(slice(x, 1, 40, 41), {0}), slice(sum(x, {0}), 0, 40, 41)));
}

TEST(Reduction, LongSumsStayAccurate) {
  const std::int64_t n = 1 << 22;
  // 4,096 / 16 additions in a lane, 1,024 / 16 of blocks, twice 4 in the trees, each off by half an ULP at worst; one
  // running sum would be off by 1e-2.
  const double bound = (256 + 64 + 8) * 0x1p-24;
  const double expected = 0.1F * static_cast<double>(n);
  EXPECT_NEAR(sum(full({n}, 0.1F)).item(), expected, bound * expected);
}

TEST(Reduction, MeanMaxMinArgmax) {
  const Tensor x = Tensor::from({3.0F, 1.0F, 2.0F, 5.0F, 9.0F, 9.0F}, {2, 3});
  EXPECT_THAT(mean(x, {1}).to_vector<float>(), ElementsAre(2, 23.0F / 3));
  EXPECT_THAT(max(x, {0}).to_vector<float>(), ElementsAre(5, 9, 9));
  EXPECT_THAT(min(x, {-1}, true).to_vector<float>(), ElementsAre(1, 5));
  EXPECT_THAT(argmax(x, -1).to_vector<std::int64_t>(), ElementsAre(0, 1));
  EXPECT_EQ(mean(Tensor::from({true, false, true, true}, {4})).item(), 0.75);
  EXPECT_EQ(sum(zeros({0, 3})).item(), 0);
}

TEST(View, SharesElements) {
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  EXPECT_THAT(transpose(x).to_vector<float>(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(slice(x, 1, 0, 3, 2).to_vector<float>(), ElementsAre(1, 3, 4, 6));
  EXPECT_THAT(slice(x, 0, -1, 2).to_vector<float>(), ElementsAre(4, 5, 6));
  EXPECT_THAT(expand(Tensor::from({1.0F, 2.0F}, {2, 1}), {2, 2}).to_vector<float>(), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(reshape(transpose(x), {-1}).to_vector<float>(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(reshape(x, {3, -1}).shape(), (Shape{3, 2}));
  EXPECT_EQ(unsqueeze(x, -1).shape(), (Shape{2, 3, 1}));
  EXPECT_EQ(squeeze(unsqueeze(x, 0), 0).shape(), x.shape());
  EXPECT_EQ(flatten(unsqueeze(x, 0), 1).shape(), (Shape{1, 6}));
}

TEST(View, ReshapeOfAStridedViewKeepsTheOrder) {
  // Every way to regroup a permuted tensor, against a dense copy.
  const Tensor base = Rng(6).normal({2, 3, 4, 2});
  for (const Axes& axes : {Axes{0, 1, 2, 3}, Axes{1, 0, 2, 3}, Axes{0, 1, 3, 2}, Axes{3, 2, 1, 0}, Axes{2, 3, 0, 1}}) {
    const Tensor view = permute(base, axes);
    const Tensor dense = copy(view);
    for (const Shape& shape : {Shape{48}, Shape{6, 8}, Shape{8, 6}, Shape{4, 12}, Shape{2, 2, 12}, Shape{1, 48, 1},
                               Shape{3, 16}, Shape{2, 3, 2, 4}, Shape{2, 24}}) {
      EXPECT_TRUE(bitwise_equal(reshape(view, shape), reshape(dense, shape)))
          << to_string(axes) << " to " << to_string(shape);
    }
  }
}

TEST(Matmul, FollowsTheDefinitionForEveryLayout) {
  Rng rng(7);
  for (const auto& [m, k, n] : {std::array{3, 4, 5}, std::array{1, 7, 1}, std::array{17, 1, 9}, std::array{1, 1, 1}}) {
    const Tensor a = rng.normal({m, k}, 0, 1, DType::float64);
    const Tensor b = rng.normal({k, n}, 0, 1, DType::float64);
    const std::vector<double> x = a.to_vector<double>();
    const std::vector<double> y = b.to_vector<double>();
    std::vector<double> expected;
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double total = 0;
        for (int l = 0; l < k; ++l) {
          total += x[static_cast<std::size_t>(i * k + l)] * y[static_cast<std::size_t>(l * n + j)];
        }
        expected.push_back(total);
      }
    }
    const auto column_major = [](const Tensor& t) { return transpose(contiguous(transpose(t))); };
    const auto padded = [](const Tensor& t) {  // rows that aren't packed, and elements that aren't either
      return slice(slice(expand(unsqueeze(t, -1), {t.shape()[0], t.shape()[1], 2}), 2, 0, 1), 0, 0, t.shape()[0]);
    };
    for (const Tensor& left : {a, column_major(a), squeeze(padded(a), 2)}) {
      for (const Tensor& right : {b, column_major(b)}) {
        const std::vector<double> actual = matmul(left, right).to_vector<double>();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_NEAR(actual[i], expected[i], 1e-13);
        }
      }
    }
  }
  EXPECT_THAT(matmul(zeros({2, 0}), zeros({0, 2})).to_vector<float>(), ElementsAre(0, 0, 0, 0));
}

TEST(Softmax, SumsToOneAndNeverOverflows) {
  const Tensor x = Tensor::from({1000.0F, 1001.0F, -1000.0F, 0.0F, 0.0F, 0.0F}, {2, 3});
  const std::vector<float> p = softmax(x).to_vector<float>();
  EXPECT_NEAR(p[0], 1 / (1 + std::exp(1.0)), 1e-6);
  EXPECT_NEAR(p[0] + p[1] + p[2], 1, 1e-6);
  EXPECT_NEAR(p[4], 1.0 / 3, 1e-6);
  EXPECT_NEAR(log_softmax(x).to_vector<float>()[5], -std::log(3.0), 1e-6);
  EXPECT_TRUE(bitwise_equal(softmax(x, 0), transpose(softmax(contiguous(transpose(x))))));
}

TEST(CrossEntropy, IsTheMeanNegativeLogLikelihood) {
  const Tensor logits = Tensor::from({1.0, 2.0, 3.0, 0.0, 0.0, 0.0}, {2, 3});
  const Tensor labels = Tensor::from({std::int64_t{2}, std::int64_t{1}}, {2});
  const double first = std::log(std::exp(1) + std::exp(2) + std::exp(3)) - 3;
  EXPECT_NEAR(cross_entropy(logits, labels).item(), (first + std::log(3.0)) / 2, 1e-14);
}

TEST(Where, ChoosesPerElement) {
  const Tensor x = floats_of({-1, 2, -3});
  EXPECT_THAT(where(less(x, zeros({})), zeros({}), x).to_vector<float>(), ElementsAre(0, 2, 0));
  EXPECT_THAT(logical_and(less(x, zeros({})), logical_not(equal(x, full({}, -3)))).to_vector<bool>(),
              ElementsAre(true, false, false));
}

}  // namespace
}  // namespace diptych
