// Sorting against std::stable_sort with the order written out: NaN last, equal elements in their old order.

#include <algorithm>
#include <numeric>

#include "tests/ops/reference.h"

namespace diptych::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool before(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

std::vector<std::int64_t> expected_order(const std::vector<double>& line, bool descending) {
  std::vector<std::int64_t> order(line.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    const double a = line[static_cast<std::size_t>(i)];
    const double b = line[static_cast<std::size_t>(j)];
    return descending ? before(b, a) : before(a, b);
  });
  return order;
}

TEST(Sort, IsStableForEveryTypeAndDirection) {
  Rng rng(61);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (const std::int64_t length : {1, 2, 17, 300}) {
      // Few different values: many ties.
      const std::int64_t low = is_floating(dtype) || is_signed_integral(dtype) ? -6 : 0;
      const Tensor x = cast(rng.integers({length}, low, 7), dtype);
      for (const bool descending : {false, true}) {
        const auto expected = expected_order(doubles(x), descending);
        EXPECT_EQ(ints(argsort(x, 0, descending)), expected) << name_of(dtype);
        const auto [values, indices] = sort(x, -1, descending);
        EXPECT_EQ(ints(indices), expected);
        EXPECT_TRUE(bitwise_equal(values, index_select(x, 0, indices)));
        for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, length / 2, length}) {
          const auto [most, at] = topk(x, k, 0, descending);
          EXPECT_EQ(ints(at), std::vector(expected.begin(), expected.begin() + k)) << name_of(dtype) << " k " << k;
          EXPECT_EQ(most.numel(), k);
        }
      }
    }
  }
}

TEST(Sort, OrdersSpecialValues) {
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16}) {
    const Tensor x = cast(f64({kNan, 1, -kInf, -0.0, 0.0, kInf, -kNan, -1e-3, 1e-3}, {9}), dtype);
    EXPECT_THAT(ints(argsort(x)), ElementsAre(2, 7, 3, 4, 8, 1, 5, 0, 6));
    EXPECT_THAT(ints(argsort(x, 0, true)), ElementsAre(0, 6, 5, 1, 8, 3, 4, 7, 2));
    EXPECT_THAT(ints(topk(x, 3).second), ElementsAre(0, 6, 5));
    EXPECT_THAT(ints(topk(x, 2, 0, false).second), ElementsAre(2, 7));
    EXPECT_TRUE(std::signbit(doubles(sort(x).first)[2]));  // elements come through as they are
  }
  const Tensor ends = i64({INT64_MAX, INT64_MIN, 0, -1}, {4});
  EXPECT_THAT(ints(argsort(ends)), ElementsAre(1, 3, 2, 0));
  const Tensor narrow = Tensor::from({INT32_MAX, INT32_MIN, 0, -1}, {4});
  EXPECT_THAT(ints(argsort(narrow)), ElementsAre(1, 3, 2, 0));
}

TEST(Sort, AlongEveryAxisAndLayout) {
  const Tensor x = f64({3, 1, 2, 9, 7, 8, 4, 6, 5, 0, 2, 1}, {2, 3, 2});
  EXPECT_THAT(doubles(sort(x, 0).first), ElementsAre(3, 1, 2, 0, 2, 1, 4, 6, 5, 9, 7, 8)) << "axis 0";
  EXPECT_THAT(doubles(sort(x, 1).first), ElementsAre(2, 1, 3, 8, 7, 9, 2, 0, 4, 1, 5, 6)) << "axis 1";
  EXPECT_THAT(doubles(sort(x, -1, true).first), ElementsAre(3, 1, 9, 2, 8, 7, 6, 4, 5, 0, 2, 1)) << "axis 2";
  EXPECT_TRUE(bitwise_equal(sort(transpose(x), 1).first, transpose(sort(x, 2).first)));
  EXPECT_EQ(sort(zeros({2, 0})).first.shape(), (Shape{2, 0}));
  EXPECT_EQ(topk(zeros({0, 3}), 2).second.shape(), (Shape{0, 2}));
}

TEST(Sort, GradientsFollowTheElements) {
  const Tensor x = f64({3, 1, 2}, {3});
  auto by_rank = grad([](const Tensor& t) { return sum(sort(t).first * f64({10, 20, 30}, {3})); });
  EXPECT_THAT(doubles(by_rank(x)), ElementsAre(30, 10, 20));
  auto largest = grad([](const Tensor& t) { return sum(square(topk(t, 2).first)); });
  EXPECT_THAT(doubles(largest(x)), ElementsAre(6, 0, 4));
}

TEST(Sort, WrongArgumentsAreRefused) {
  EXPECT_THAT(message_of<ShapeError>([] { topk(zeros({3}), 4); }), HasSubstr("k is 4, and the axis has 3 elements"));
  EXPECT_THAT(message_of<ShapeError>([] { topk(zeros({3}), -1); }), HasSubstr("k is -1"));
  EXPECT_THAT(message_of<ShapeError>([] { sort(zeros({3}), 1); }), HasSubstr("axis 1"));
  EXPECT_THAT(message_of<ShapeError>([] { argsort(full({}, 1)); }), HasSubstr("argsort"));
}

}  // namespace
}  // namespace diptych::testing
