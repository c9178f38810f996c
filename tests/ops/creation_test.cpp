// Tensors from nothing: numbers of elements, values at the ends, hostile arguments.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/dispatch/apply.h"

namespace diptych {
namespace {

using ::testing::ElementsAre;

constexpr double kInfiniteNumber = std::numeric_limits<double>::infinity();

TEST(Arange, CountsAsPythonDoes) {
  EXPECT_THAT(arange(4).to_vector<std::int64_t>(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(arange(2, 9, 3).to_vector<std::int64_t>(), ElementsAre(2, 5, 8));
  EXPECT_THAT(arange(5, 0, -2).to_vector<std::int64_t>(), ElementsAre(5, 3, 1));
  EXPECT_EQ(arange(5, 0).numel(), 0);
  EXPECT_EQ(arange(0).numel(), 0);
  EXPECT_EQ(arange(0, 5, -1).numel(), 0);
}

TEST(Arange, TypesFollowTheNumbers) {
  EXPECT_EQ(arange(3).dtype(), DType::int64);
  EXPECT_EQ(arange(0, 2.5).dtype(), DType::int64) << "the end isn't an element";
  EXPECT_EQ(arange(0.5, 3).dtype(), DType::float32);
  EXPECT_EQ(arange(0, 1, 0.25).dtype(), DType::float32);
  EXPECT_EQ(arange(3, DType::bfloat16).dtype(), DType::bfloat16);
}

TEST(Arange, NoElementReachesTheEndWhateverTheRounding) {
  EXPECT_EQ(arange(1, 1.3, 0.1, DType::float64).numel(), 3) << "(1.3 - 1) / 0.1 is above 3 in doubles";
  EXPECT_EQ(arange(0, 1, 0.1).numel(), 10);
  for (int n = 1; n < 200; ++n) {
    for (const double step : {0.1, 0.7, 1.0 / 3, 1e-3, -0.1}) {
      const auto values = arange(2, 2 + n * step, step, DType::float64).to_vector<double>();
      ASSERT_TRUE(values.size() == static_cast<std::size_t>(n) || values.size() == static_cast<std::size_t>(n) + 1);
      ASSERT_TRUE(step > 0 ? values.back() < 2 + n * step : values.back() > 2 + n * step);
    }
  }
}

TEST(Arange, HostileArgumentsAreRefused) {
  EXPECT_THROW(arange(0, 1, 0), Error);
  EXPECT_THROW(arange(0, 1, NAN), Error);
  EXPECT_THROW(arange(0, kInfiniteNumber), Error);
  EXPECT_THROW(arange(1e300), ShapeError);
  EXPECT_THROW(arange(0, 1, 1e-300), ShapeError);
  EXPECT_THROW(arange(-1e308, 1e308), ShapeError);
  EXPECT_THROW(arange(1e17), ShapeError);
  EXPECT_EQ(arange(0, 1e-300, -1e-10).numel(), 0);
}

TEST(Linspace, BothEndsAreExact) {
  EXPECT_THAT(linspace(0, 1, 5).to_vector<float>(), ElementsAre(0, 0.25F, 0.5F, 0.75F, 1));
  EXPECT_THAT(linspace(3, -3, 3).to_vector<float>(), ElementsAre(3, 0, -3));
  EXPECT_THAT(linspace(2, 9, 1).to_vector<float>(), ElementsAre(2));
  EXPECT_EQ(linspace(2, 9, 0).numel(), 0);
  for (int n = 2; n < 300; ++n) {
    const auto values = linspace(0.1, 0.7, n, DType::float64).to_vector<double>();
    EXPECT_EQ(values.front(), 0.1);
    EXPECT_EQ(values.back(), 0.7);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], 0.1 + 0.6 * static_cast<double>(i) / (n - 1), 1e-15);
    }
  }
  EXPECT_THROW(linspace(0, 1, -1), ShapeError);
  EXPECT_THROW(linspace(0, 1, std::int64_t{1} << 60), ShapeError);
  EXPECT_THROW(linspace(0, kInfiniteNumber, 3), Error);
  EXPECT_THROW(linspace(-1e308, 1e308, 3), Error);
}

TEST(Eye, HasOnesOnTheDiagonal) {
  EXPECT_THAT(eye(2, 3).to_vector<float>(), ElementsAre(1, 0, 0, 0, 1, 0));
  EXPECT_THAT(eye(3, 2, DType::boolean).to_vector<bool>(), ElementsAre(true, false, false, true, false, false));
  EXPECT_THAT(eye(2).to_vector<float>(), ElementsAre(1, 0, 0, 1));
  EXPECT_EQ(eye(0, 5).shape(), (Shape{0, 5}));
  EXPECT_THROW(eye(-1), ShapeError);
  EXPECT_THROW(eye(std::int64_t{1} << 32, std::int64_t{1} << 32), ShapeError);
}

TEST(Full, NumbersOutsideTheTypeSaturate) {
  EXPECT_EQ(full({1}, 1e300, DType::int32).item(), 2147483647.0);
  EXPECT_EQ(full({1}, -5, DType::uint8).item(), 0);
  EXPECT_EQ(full({1}, 300, DType::uint8).item(), 255);
  EXPECT_EQ(full({1}, NAN, DType::int64).item(), 0);
  EXPECT_EQ(full({1}, 1e300, DType::float32).item(), kInfiniteNumber);
  EXPECT_EQ(full({1}, 0.5, DType::boolean).item(), 1);
}

TEST(Full, AbsurdLengthsAreRefused) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_THROW(zeros({-1}), ShapeError);
  EXPECT_THROW(zeros({kHuge}), ShapeError);
  EXPECT_THROW(zeros({kHuge, kHuge}), ShapeError);
  EXPECT_THROW(zeros({0, kHuge, kHuge}), ShapeError) << "the strides would overflow";
  EXPECT_THROW(zeros({1 << 20, 1 << 20, 1 << 20, 1 << 20}), ShapeError);
  EXPECT_EQ(zeros({0, 1 << 20}).numel(), 0);
}

TEST(Like, TakesTypeAndShape) {
  const Tensor x = full({2, 3}, 7, DType::bfloat16);
  EXPECT_EQ(zeros_like(x).type(), x.type());
  EXPECT_EQ(ones_like(x).type(), x.type());
  EXPECT_EQ(full_like(x, 4).type(), x.type());
  EXPECT_EQ(sum(ones_like(x)).item(), 6);
  EXPECT_EQ(rand_like(x).type(), x.type());
  EXPECT_EQ(randn_like(x).type(), x.type());
}

}  // namespace
}  // namespace diptych
