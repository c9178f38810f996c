// NaN, infinities, signed zeros and subnormals go through ops as IEEE 754 says, in vector and scalar paths alike.

#include <cmath>

#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych {
namespace {

constexpr float kInfiniteFloat = std::numeric_limits<float>::infinity();

/// Long enough for every vector loop, with the value in each lane.
float through(Tensor (*op)(const Tensor&, Location), float value) {
  const std::vector<float> results = op(full({67}, value), Location::current()).to_vector<float>();
  for (const float result : results) {
    EXPECT_TRUE(std::isnan(result) ? std::isnan(results[0])
                                   : std::bit_cast<std::uint32_t>(result) == std::bit_cast<std::uint32_t>(results[0]));
  }
  return results[0];
}

TEST(SpecialValues, UnaryOps) {
  EXPECT_EQ(through(exp, kInfiniteFloat), kInfiniteFloat);
  EXPECT_EQ(through(exp, -kInfiniteFloat), 0);
  EXPECT_EQ(through(exp, 0), 1);
  EXPECT_EQ(through(exp, 1000), kInfiniteFloat);
  EXPECT_EQ(through(log, 0), -kInfiniteFloat);
  EXPECT_EQ(through(log, -0.0F), -kInfiniteFloat);
  EXPECT_EQ(through(log, kInfiniteFloat), kInfiniteFloat);
  EXPECT_EQ(through(log, 1), 0);
  EXPECT_TRUE(std::isnan(through(log, -1)));
  EXPECT_EQ(through(tanh, kInfiniteFloat), 1);
  EXPECT_EQ(through(tanh, -kInfiniteFloat), -1);
  EXPECT_TRUE(std::signbit(through(tanh, -0.0F)));
  EXPECT_EQ(through(erf, kInfiniteFloat), 1);
  EXPECT_EQ(through(erf, -kInfiniteFloat), -1);
  EXPECT_EQ(through(sigmoid, kInfiniteFloat), 1);
  EXPECT_EQ(through(sigmoid, -kInfiniteFloat), 0);
  EXPECT_EQ(through(abs, -kInfiniteFloat), kInfiniteFloat);
  EXPECT_TRUE(std::isnan(through(sqrt, -1)));
  EXPECT_EQ(through(reciprocal, -0.0F), -kInfiniteFloat);
  EXPECT_EQ(through(relu, -kInfiniteFloat), 0);
  const float subnormal = 1e-40F;
  EXPECT_NEAR(through(log, subnormal), std::log(static_cast<double>(subnormal)), 1e-4);
  EXPECT_GT(through(exp, -90), 0);  // a subnormal result, not zero
}

TEST(SpecialValues, NaNComesThrough) {
  for (const auto op : {neg, abs, sign, square, exp, log, sqrt, reciprocal, tanh, sigmoid, erf, relu, gelu}) {
    EXPECT_TRUE(std::isnan(through(op, NAN)));
  }
}

TEST(SpecialValues, MaximumAndMinimumPropagateNaNFromEitherSide) {
  const Tensor nan = full({33}, NAN);
  const Tensor one = full({33}, 1);
  for (const Tensor& result : {maximum(nan, one), maximum(one, nan), minimum(nan, one), minimum(one, nan)}) {
    for (const float value : result.to_vector<float>()) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(SpecialValues, ReductionsPropagateNaNFromEveryPosition) {
  for (std::int64_t position = 0; position < 40; ++position) {
    std::vector<float> values(40, 1.0F);
    values[static_cast<std::size_t>(position)] = NAN;
    const Tensor x = Tensor::from(values, {40});
    EXPECT_TRUE(std::isnan(max(x).item()));
    EXPECT_TRUE(std::isnan(min(x).item()));
    EXPECT_TRUE(std::isnan(sum(x).item()));
    EXPECT_EQ(argmax(x).item(), static_cast<double>(position));
  }
}

TEST(SpecialValues, ComparisonsWithNaNAreFalseButNotEqual) {
  const Tensor nan = full({5}, NAN);
  const auto all = [](const Tensor& t, bool expected) {
    for (const bool value : t.to_vector<bool>()) {
      EXPECT_EQ(value, expected);
    }
  };
  all(equal(nan, nan), false);
  all(less(nan, nan), false);
  all(greater_equal(nan, nan), false);
  all(not_equal(nan, nan), true);
}

}  // namespace
}  // namespace diptych
