// Reductions against their definitions in plain double loops, at the edges of arithmetic, and over nothing.

#include <algorithm>

#include "tests/ops/reference.h"

namespace diptych::testing {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Values = std::vector<double>;

double sum_of(const Values& v) {
  double total = 0;
  for (const double x : v) {
    total += x;
  }
  return total;
}
double variance_of(const Values& v, double correction) {
  const double mean = sum_of(v) / static_cast<double>(v.size());
  double total = 0;
  for (const double x : v) {
    total += (x - mean) * (x - mean);
  }
  return total / (static_cast<double>(v.size()) - correction);
}
double norm_of(const Values& v, double p) {
  double total = 0;
  for (const double x : v) {
    total = std::isinf(p) ? std::max(total, std::fabs(x)) : total + std::pow(std::fabs(x), p);
  }
  return std::isinf(p) ? total : std::pow(total, 1 / p);
}

struct ReductionCase {
  const char* name;
  std::function<Tensor(const Tensor&, const Axes&, bool)> op;
  std::function<double(const Values&)> definition;
};

std::vector<ReductionCase> cases() {
  return {
      {"sum", [](const Tensor& x, const Axes& a, bool k) { return sum(x, a, k); }, sum_of},
      {"mean", [](const Tensor& x, const Axes& a, bool k) { return mean(x, a, k); },
       [](const Values& v) { return sum_of(v) / static_cast<double>(v.size()); }},
      {"prod", [](const Tensor& x, const Axes& a, bool k) { return prod(x, a, k); },
       [](const Values& v) {
         double product = 1;
         for (const double x : v) {
           product *= x;
         }
         return product;
       }},
      {"max", [](const Tensor& x, const Axes& a, bool k) { return max(x, a, k); },
       [](const Values& v) { return *std::max_element(v.begin(), v.end()); }},
      {"min", [](const Tensor& x, const Axes& a, bool k) { return min(x, a, k); },
       [](const Values& v) { return *std::min_element(v.begin(), v.end()); }},
      {"var", [](const Tensor& x, const Axes& a, bool k) { return var(x, a, 1, k); },
       [](const Values& v) { return variance_of(v, 1); }},
      {"std", [](const Tensor& x, const Axes& a, bool k) { return std(x, a, 0, k); },
       [](const Values& v) { return std::sqrt(variance_of(v, 0)); }},
      {"logsumexp", [](const Tensor& x, const Axes& a, bool k) { return logsumexp(x, a, k); },
       [](const Values& v) {
         double total = 0;
         for (const double x : v) {
           total += std::exp(x);
         }
         return std::log(total);
       }},
      {"norm 1", [](const Tensor& x, const Axes& a, bool k) { return norm(x, 1, a, k); },
       [](const Values& v) { return norm_of(v, 1); }},
      {"norm 2", [](const Tensor& x, const Axes& a, bool k) { return norm(x, 2, a, k); },
       [](const Values& v) { return norm_of(v, 2); }},
      {"norm 3.5", [](const Tensor& x, const Axes& a, bool k) { return norm(x, 3.5, a, k); },
       [](const Values& v) { return norm_of(v, 3.5); }},
      {"norm inf", [](const Tensor& x, const Axes& a, bool k) { return norm(x, kInf, a, k); },
       [](const Values& v) { return norm_of(v, kInf); }},
  };
}

/// Every walk that the kernels know: rows, columns narrow and wide, gathered runs, over a block, strided.
TEST(ReductionValues, FollowTheirDefinitionsForAllAxesAndLayouts) {
  Rng rng(41);
  const std::vector<Tensor> inputs{
      rng.normal({3, 4, 5}, 0, 1, DType::float64),
      rng.normal({2, 3, 2, 3}, 0, 1, DType::float64),
      rng.normal({37, 150}, 0, 1, DType::float64),
      permute(rng.normal({4, 20, 3}, 0, 1, DType::float64), {2, 0, 1}),
      transpose(rng.normal({19, 33}, 0, 1, DType::float64)),
      slice(rng.normal({9, 24}, 0, 1, DType::float64), 1, 1, 24, 3),
  };
  for (const Tensor& x : inputs) {
    for (int mask = 1; mask < 1 << x.rank(); ++mask) {
      Axes axes;
      std::int64_t count = 1;
      for (int axis = 0; axis < x.rank(); ++axis) {
        if ((mask >> axis & 1) != 0) {
          axes.push_back(axis);
          count *= x.shape()[axis];
        }
      }
      if (count < 2) {
        continue;
      }
      const auto expected = groups(x, axes);
      for (const ReductionCase& c : cases()) {
        const Values actual = doubles(c.op(x, axes, false));
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t i = 0; i < actual.size(); ++i) {
          const double wanted = c.definition(expected[i]);
          ASSERT_NEAR(actual[i], wanted, 1e-12 * (1 + std::fabs(wanted)))
              << c.name << " of " << to_string(x.shape()) << " over " << to_string(axes);
        }
        const Tensor kept = c.op(x, axes, true);
        ASSERT_EQ(kept.rank(), x.rank());
        for (int axis = 0; axis < x.rank(); ++axis) {
          ASSERT_EQ(kept.shape()[axis], axes.contains(axis) ? 1 : x.shape()[axis]) << c.name;
        }
        ASSERT_EQ(doubles(kept), actual) << c.name;
      }
    }
  }
}

TEST(ReductionValues, LongColumnsAndRowsCrossBlocks) {
  const Tensor x = Rng(42).normal({9000, 20}, 0, 1, DType::float64);
  for (const std::int64_t axis : {0, 1}) {
    const auto expected = groups(x, {axis});
    const Values sums = doubles(sum(x, {axis}));
    const Values variances = doubles(var(x, {axis}));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(sums[i], sum_of(expected[i]), 1e-10);
      ASSERT_NEAR(variances[i], variance_of(expected[i], 1), 1e-12);
    }
  }
  // A column has the same bits alone, in a narrow and in a wide matrix, and as a row.
  const Tensor f = Rng(43).normal({9000, 600});
  const Tensor columns = sum(f, {0});
  EXPECT_TRUE(bitwise_equal(slice(columns, 0, 599, 600), sum(slice(f, 1, 599, 600), {0})));
  EXPECT_TRUE(bitwise_equal(slice(columns, 0, 255, 259), sum(slice(f, 1, 255, 259), {0})));
  EXPECT_TRUE(bitwise_equal(columns, sum(contiguous(transpose(f)), {1})));
}

TEST(ReductionValues, RowsAndColumnsOfEveryLengthHaveTheSameBits) {
  Rng rng(44);
  for (const std::int64_t length : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 79, 80, 127, 200}) {
    for (const std::int64_t width : {8, 9, 1030}) {
      const Tensor columns = rng.normal({length, width});
      const Tensor rows = contiguous(transpose(columns));
      for (const ReductionCase& c : cases()) {
        EXPECT_TRUE(bitwise_equal(c.op(columns, {0}, false), c.op(rows, {1}, false)))
            << c.name << " of " << length << " in " << width;
      }
    }
    // Zeros of both signs are the only values whose extreme depends on the order.
    const Tensor zeros_of_both_signs = mul(sign(rng.normal({length, 40})), zeros({}));
    const Tensor rows = contiguous(transpose(zeros_of_both_signs));
    EXPECT_TRUE(bitwise_equal(max(zeros_of_both_signs, {0}), max(rows, {1}))) << length;
    EXPECT_TRUE(bitwise_equal(min(zeros_of_both_signs, {0}), min(rows, {1}))) << length;
  }
}

TEST(ReductionValues, NegativeAxesCountFromTheEndAndTwiceIsRefused) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_THAT(doubles(prod(x, {-1})), ElementsAre(6, 120));
  EXPECT_THAT(doubles(sum(x, {-2})), ElementsAre(5, 7, 9));
  for (const Axes& axes : {Axes{0, 0}, Axes{1, -1}, Axes{-2, 1, 0}}) {
    EXPECT_THAT(message_of<ShapeError>([&] { sum(x, axes); }), HasSubstr("given twice"));
    EXPECT_THAT(message_of<ShapeError>([&] { var(x, axes); }), HasSubstr("given twice"));
    EXPECT_THAT(message_of<ShapeError>([&] { any(x, axes); }), HasSubstr("given twice"));
  }
  EXPECT_THAT(message_of<ShapeError>([&] { argmin(x, 2); }), HasSubstr("axis 2"));
  EXPECT_THAT(message_of<ShapeError>([&] { cumsum(x, -3); }), HasSubstr("axis -3"));
}

TEST(ReductionValues, OfNothing) {
  const Tensor none = zeros({0, 3});
  EXPECT_THAT(sum(none, {0}).to_vector<float>(), ElementsAre(0, 0, 0));
  EXPECT_THAT(prod(none, {0}).to_vector<float>(), ElementsAre(1, 1, 1));
  EXPECT_THAT(any(none, {0}).to_vector<bool>(), ElementsAre(false, false, false));
  EXPECT_THAT(all(none, {0}).to_vector<bool>(), ElementsAre(true, true, true));
  EXPECT_THAT(doubles(logsumexp(none, {0})), ElementsAre(-kInf, -kInf, -kInf));
  EXPECT_TRUE(std::isnan(mean(none).item()));
  EXPECT_TRUE(std::isnan(var(none).item()));
  EXPECT_EQ(norm(none).item(), 0);
  for (const auto& take :
       {std::function<void()>([&] { max(none); }), std::function<void()>([&] { min(none, {0}); }),
        std::function<void()>([&] { argmax(none, 0); }), std::function<void()>([&] { argmin(none); }),
        std::function<void()>([&] { norm(none, kInf); })}) {
    EXPECT_THAT(message_of<ShapeError>(take), HasSubstr("no element to take"));
  }
  // No output, so nothing is missing.
  EXPECT_EQ(max(none, {1}).shape(), (Shape{0}));
  EXPECT_EQ(argmax(none, 1).shape(), (Shape{0}));
  EXPECT_EQ(var(none, {1}, 1, true).shape(), (Shape{0, 1}));
  EXPECT_EQ(cumsum(none, 0).shape(), (Shape{0, 3}));
}

TEST(ReductionValues, IntegersAndBool) {
  const Tensor bytes = cast(full({300}, 200), DType::uint8);
  EXPECT_EQ(sum(bytes).dtype(), DType::int64);
  EXPECT_EQ(sum(bytes).item(), 60000);
  EXPECT_EQ(prod(Tensor::from({3, 4, 5}, {3})).dtype(), DType::int64);
  EXPECT_EQ(prod(Tensor::from({3, 4, 5}, {3})).item(), 60);
  EXPECT_EQ(var(Tensor::from({1, 2, 3, 4}, {4})).dtype(), DType::float32);
  EXPECT_FLOAT_EQ(static_cast<float>(var(Tensor::from({1, 2, 3, 4}, {4})).item()), 5.0F / 3);
  const Tensor flags = Tensor::from({true, false, true}, {3});
  EXPECT_EQ(max(flags).dtype(), DType::boolean);
  EXPECT_EQ(max(flags).item(), 1);
  EXPECT_EQ(min(flags).item(), 0);
  EXPECT_EQ(argmin(flags).item(), 1);
  EXPECT_EQ(prod(flags).item(), 0);
  EXPECT_THAT(ints(cumsum(flags, 0)), ElementsAre(1, 1, 2));
  EXPECT_EQ(cumsum(bytes, 0).dtype(), DType::int64);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(ints(prod(i64({most, 2}, {2}))), std::vector<std::int64_t>{-2});  // wraps around
}

TEST(ReductionValues, AnyAndAllForEveryType) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor x = cast(Tensor::from({0, 0, 0, 1, 1, 1, 0, 1, 0}, {3, 3}), dtype);
    EXPECT_THAT(any(x, {1}).to_vector<bool>(), ElementsAre(false, true, true));
    EXPECT_THAT(all(x, {1}).to_vector<bool>(), ElementsAre(false, true, false));
    EXPECT_THAT(all(x, {0}).to_vector<bool>(), ElementsAre(false, false, false));
    EXPECT_TRUE(any(x).item() != 0);
  }
  EXPECT_TRUE(any(f64({kNan}, {1})).item() != 0);
  EXPECT_TRUE(any(f64({-0.0}, {1})).item() == 0);
}

TEST(ReductionValues, VarianceSurvivesLargeOffsets) {
  // [1, 2, 3, 4] has variance 5/3 wherever it stands; one pass of sums of squares would lose all of it.
  EXPECT_NEAR(var(f64({1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9 + 4}, {4})).item(), 5.0 / 3, 1e-12);
  std::vector<float> values(10000);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 16777216.0F + static_cast<float>(i % 2 * 2);  // 2^24 + 0 or 2, both exact
  }
  EXPECT_FLOAT_EQ(static_cast<float>(var(Tensor::from(values, {10000}), {}, 0).item()), 1.0F);
  EXPECT_FLOAT_EQ(var(transpose(Tensor::from(values, {100, 100})), {1}, 0).to_vector<float>()[0], 0.0F);
  // A rounded mean: 3 values around 2^53, whose sum isn't a double.
  const double huge = 0x1p53;
  EXPECT_NEAR(var(f64({huge, huge + 2, huge + 4, huge + 8}, {4}), {}, 0).item(), 8.75, 1e-12);
}

TEST(ReductionValues, VarianceOfTooFewElements) {
  EXPECT_TRUE(std::isnan(var(f64({3}, {1})).item()));  // 0 / 0
  EXPECT_EQ(var(f64({3}, {1}), {}, 0).item(), 0);
  EXPECT_EQ(var(f64({1, 3}, {2}), {}, 5).item(), kInf);
  EXPECT_THAT(message_of<ShapeError>([] { var(zeros({2}), {}, -1); }), HasSubstr("correction"));
  EXPECT_THAT(message_of<ShapeError>([] { std(zeros({2}), {}, kNan); }), HasSubstr("correction"));
  EXPECT_THAT(doubles(grad([](const Tensor& x) { return std(x); })(f64({2, 2, 2}, {3}))), ElementsAre(0, 0, 0));
}

TEST(ReductionValues, LogSumExpAtTheEnds) {
  EXPECT_NEAR(logsumexp(f64({1000, 1000}, {2})).item(), 1000 + std::log(2), 1e-12);
  EXPECT_NEAR(logsumexp(f64({-1000, -1001}, {2})).item(), -1000 + std::log1p(std::exp(-1)), 1e-12);
  EXPECT_EQ(logsumexp(f64({-kInf, -kInf}, {2})).item(), -kInf);
  EXPECT_EQ(logsumexp(f64({-kInf, 3}, {2})).item(), 3);
  EXPECT_EQ(logsumexp(f64({kInf, 3, -kInf}, {3})).item(), kInf);
  EXPECT_TRUE(std::isnan(logsumexp(f64({kNan, kInf}, {2})).item()));
  EXPECT_TRUE(std::isnan(logsumexp(f64({kInf, kNan}, {2})).item()));
  EXPECT_THAT(doubles(grad([](const Tensor& x) { return logsumexp(x); })(f64({-kInf, -kInf}, {2}))), ElementsAre(0, 0));
  EXPECT_THAT(doubles(grad([](const Tensor& x) { return logsumexp(x); })(f64({-kInf, 5}, {2}))), ElementsAre(0, 1));
}

TEST(ReductionValues, ProductsGradientWithZeros) {
  const auto gradient = [](const Tensor& x) { return doubles(grad([](const Tensor& t) { return prod(t); })(x)); };
  EXPECT_THAT(gradient(f64({2, 3, 4}, {3})), ElementsAre(12, 8, 6));
  EXPECT_THAT(gradient(f64({2, 0, 4}, {3})), ElementsAre(0, 8, 0));
  EXPECT_THAT(gradient(f64({0, 3, 0}, {3})), ElementsAre(0, 0, 0));
  EXPECT_THAT(gradient(f64({7}, {1})), ElementsAre(1));
  EXPECT_THAT(gradient(f64({2, 3, 4, 5, 0}, {5})), ElementsAre(0, 0, 0, 0, 120));
  // d2 (a b c) / da db = c, with a zero on the diagonal's way.
  auto second = grad([](const Tensor& x) {
    return sum(grad([](const Tensor& t) { return prod(t); })(x) * f64({1, 0, 0}, {3}));
  });
  EXPECT_THAT(doubles(second(f64({2, 0, 5}, {3}))), ElementsAre(0, 5, 0));
  auto by_axes = grad([](const Tensor& x) { return sum(prod(x, {0, 2})); });
  EXPECT_THAT(doubles(by_axes(f64({1, 2, 3, 0, 5, 6, 7, 8}, {2, 2, 2}))), ElementsAre(60, 30, 0, 168, 12, 10, 0, 0));
}

TEST(ReductionValues, ExtremesShareTheirGradient) {
  EXPECT_THAT(doubles(grad([](const Tensor& x) { return max(x); })(f64({1, 4, 4}, {3}))), ElementsAre(0, 0.5, 0.5));
}

TEST(ReductionValues, NormsAtZeroHaveNoGradient) {
  for (const double p : {1.0, 2.0, 3.0}) {
    EXPECT_THAT(doubles(grad([=](const Tensor& x) { return norm(x, p); })(zeros({2}, DType::float64))),
                ElementsAre(0, 0))
        << p;
  }
  EXPECT_THAT(doubles(grad([](const Tensor& x) { return norm(x); })(f64({3, 0, -4}, {3}))),
              ElementsAre(DoubleEq(0.6), 0, DoubleEq(-0.8)));
  EXPECT_THAT(message_of<ShapeError>([] { norm(zeros({2}), 0); }), HasSubstr("p > 0"));
  EXPECT_THAT(message_of<ShapeError>([] { norm(zeros({2}), kNan); }), HasSubstr("p > 0"));
  EXPECT_TRUE(std::isnan(norm(f64({1, kNan}, {2})).item()));
  EXPECT_TRUE(std::isnan(norm(f64({1, kNan}, {2}), kInf).item()));
  EXPECT_EQ(norm(f64({1, -kInf}, {2}), 3).item(), kInf);
}

TEST(ArgExtremes, FirstOfEqualsNaNFirstAndAllAxes) {
  const Tensor x = f64({3, 9, 9, 1, 1, 5}, {2, 3});
  EXPECT_EQ(argmax(x).item(), 1);
  EXPECT_EQ(argmin(x).item(), 3);
  EXPECT_EQ(argmax(x).rank(), 0);
  EXPECT_EQ(argmax(x, {}, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(argmax(x, 0, true).shape(), (Shape{1, 3}));
  EXPECT_THAT(ints(argmax(x, -1)), ElementsAre(1, 2));
  EXPECT_THAT(ints(argmin(x, 0)), ElementsAre(1, 1, 1));
  EXPECT_THAT(ints(argmin(x, 1)), ElementsAre(0, 0));
  EXPECT_EQ(argmax(transpose(x)).item(), 2);  // (1, 0): 9 comes there before (2, 0)
  const Tensor nan = f64({1, kNan, kInf, kNan, -kInf, 0}, {2, 3});
  EXPECT_THAT(ints(argmax(nan, 1)), ElementsAre(1, 0));
  EXPECT_THAT(ints(argmin(nan, 1)), ElementsAre(1, 0));
  EXPECT_THAT(ints(argmax(nan, 0)), ElementsAre(1, 0, 0));
  EXPECT_THAT(ints(argmin(nan, 0)), ElementsAre(1, 0, 1));
  EXPECT_EQ(argmax(f64({-0.0, 0.0}, {2})).item(), 0);
  EXPECT_EQ(argmax(f64({-kInf, -kInf}, {2})).item(), 0);
}

TEST(ArgExtremes, FindEveryPositionOfALongRow) {
  for (std::int64_t position = 0; position < 150; ++position) {
    std::vector<double> values(150, 1);
    for (const double special : {2.0, kInf, kNan}) {
      values[static_cast<std::size_t>(position)] = special;
      values[149] = position < 149 && special == 2 ? 2 : values[149];  // an equal one after it
      const Tensor x = Tensor::from(values, {150});
      EXPECT_EQ(argmax(x).item(), static_cast<double>(position));
      EXPECT_EQ(argmin(-x).item(), static_cast<double>(position));
      EXPECT_EQ(max(x).item() == special, !std::isnan(special));
    }
  }
}

TEST(Cumsum, ManyRowsAndTheSignOfZero) {
  const Tensor x = Rng(45).normal({21, 13}, 0, 1, DType::float64);
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      // Rows are scanned apart, columns together: the same sums.
      EXPECT_TRUE(bitwise_equal(cumsum(x, 1, exclusive, reverse),
                                transpose(cumsum(contiguous(transpose(x)), 0, exclusive, reverse))));
    }
  }
  EXPECT_TRUE(std::signbit(doubles(cumsum(f64({-0.0, -0.0}, {2}), 0))[1]));
  EXPECT_FALSE(std::signbit(doubles(cumsum(f64({-0.0, -0.0}, {2}), 0, true))[1]));
}

TEST(Cumsum, RunsInclusiveExclusiveAndBackward) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_THAT(doubles(cumsum(x, 1)), ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(doubles(cumsum(x, 1, true)), ElementsAre(0, 1, 3, 0, 4, 9));
  EXPECT_THAT(doubles(cumsum(x, 1, false, true)), ElementsAre(6, 5, 3, 15, 11, 6));
  EXPECT_THAT(doubles(cumsum(x, -1, true, true)), ElementsAre(5, 3, 0, 11, 6, 0));
  EXPECT_THAT(doubles(cumsum(x, 0)), ElementsAre(1, 2, 3, 5, 7, 9));
  EXPECT_THAT(doubles(cumsum(x, 0, true, true)), ElementsAre(4, 5, 6, 0, 0, 0));
  EXPECT_THAT(doubles(cumsum(transpose(x), 0)), ElementsAre(1, 4, 3, 9, 6, 15));
  EXPECT_THAT(message_of<ShapeError>([] { cumsum(full({}, 1), 0); }), HasSubstr("cumsum"));
}

}  // namespace
}  // namespace diptych::testing
