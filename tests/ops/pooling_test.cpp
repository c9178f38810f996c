// Poolings against loops written from the definition, in double.

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/support/message_of.h"

namespace diptych {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct PoolingCase {
  std::int64_t height, width;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;
  std::int64_t dilation;
  bool ceil_mode;
  bool count_include_pad;

  PoolOptions options() const { return {{stride}, {padding}, {dilation}, ceil_mode, count_include_pad}; }
};

std::vector<PoolingCase> pooling_grid() {
  std::vector<PoolingCase> cases;
  for (const std::int64_t kernel : {1, 2, 3, 4}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const std::int64_t padding : {0, 1, 2}) {
        for (const bool ceil_mode : {false, true}) {
          if (2 * padding <= kernel) {
            cases.push_back({9, 11, kernel, stride, padding, 1, ceil_mode, stride != 2});
            cases.push_back({10, 12, kernel, stride, padding, 2, ceil_mode, true});
          }
        }
      }
    }
  }
  for (const std::int64_t kernel : {1, 2, 3}) {  // sides that the stride divides
    cases.push_back({9, 12, kernel, 3, 0, 1, false, true});
    cases.push_back({8, 10, kernel, 2, 0, 1, false, true});
  }
  cases.push_back({6, 6, 2, 3, 0, 2, true, false});
  cases.push_back({20, 24, 5, 2, 2, 1, false, true});
  cases.push_back({2, 2, 2, 1, 1, 3, false, true});  // a dilated window that reads padding alone
  cases.push_back({1, 1, 1, 1000, 0, 1, false, true});
  cases.push_back({40, 3, 3, 1, 1, 1, false, false});
  cases.push_back({3, 4, 3, 3, 0, 2, true, true});  // in ceil mode a window may be longer than the input
  cases.push_back({2, 3, 4, 3, 0, 1, true, true});
  return cases;
}

std::int64_t length_of(const PoolingCase& c, std::int64_t input) {
  const std::int64_t room = input + 2 * c.padding - c.dilation * (c.kernel - 1) - 1;
  std::int64_t length = (c.ceil_mode ? (room + c.stride - 1) / c.stride : room / c.stride) + 1;
  if (c.ceil_mode && (length - 1) * c.stride >= input + c.padding) {
    --length;
  }
  return length;
}

/// One plane: calls `fn(output, index in the plane, or -1 for padding and -2 for beyond it)` for each cell of each
/// window, in row-major order.
template <class Fn>
void for_each_cell(const PoolingCase& c, const Fn& fn) {
  std::size_t output = 0;
  for (std::int64_t y = 0; y < length_of(c, c.height); ++y) {
    for (std::int64_t x = 0; x < length_of(c, c.width); ++x, ++output) {
      for (std::int64_t k = 0; k < c.kernel; ++k) {
        for (std::int64_t l = 0; l < c.kernel; ++l) {
          const std::int64_t row = y * c.stride + k * c.dilation - c.padding;
          const std::int64_t column = x * c.stride + l * c.dilation - c.padding;
          const bool inside = row >= 0 && row < c.height && column >= 0 && column < c.width;
          const bool beyond = row >= c.height + c.padding || column >= c.width + c.padding;
          fn(output, inside ? row * c.width + column : beyond ? -2 : -1);
        }
      }
    }
  }
}

class Pooling : public ::testing::TestWithParam<PoolingCase> {};

TEST_P(Pooling, MaxFollowsTheDefinition) {
  const PoolingCase& c = GetParam();
  // Few values, so that windows have equal ones: the gradient goes to the first. One in seven is -infinity.
  const Tensor numbers = cast(Rng(5).integers({2, 3, c.height, c.width}, -3, 4), DType::float64);
  const Tensor x = masked_fill(numbers, equal(numbers, full({}, -3.0, DType::float64)), -kInfinity);
  const std::vector<double> in = x.to_vector<double>();
  const Tensor y = max_pool2d(x, {c.kernel}, c.options());
  ASSERT_EQ(y.shape(), (Shape{2, 3, length_of(c, c.height), length_of(c, c.width)}));
  const auto outputs = static_cast<std::size_t>(y.shape()[2] * y.shape()[3]);
  const auto inputs = static_cast<std::size_t>(c.height * c.width);
  const Tensor dy = Rng(6).normal(y.shape(), 0, 1, DType::float64);
  const std::vector<double> cotangent = dy.to_vector<double>();
  std::vector<double> expected(6 * outputs, -kInfinity);
  std::vector<double> expected_dx(6 * inputs, 0);
  for (std::size_t plane = 0; plane < 6; ++plane) {
    std::vector<std::int64_t> winner(outputs, -1);
    for_each_cell(c, [&](std::size_t output, std::int64_t cell) {
      if (cell >= 0 && (winner[output] < 0 ||
                        in[plane * inputs + static_cast<std::size_t>(cell)] > expected[plane * outputs + output])) {
        expected[plane * outputs + output] = in[plane * inputs + static_cast<std::size_t>(cell)];
        winner[output] = cell;
      }
    });
    for (std::size_t output = 0; output < outputs; ++output) {
      if (winner[output] >= 0) {
        expected_dx[plane * inputs + static_cast<std::size_t>(winner[output])] += cotangent[plane * outputs + output];
      }
    }
  }
  EXPECT_EQ(y.to_vector<double>(), expected);
  EXPECT_EQ(max_pool2d(cast(x, DType::float32), {c.kernel}, c.options()).to_vector<double>(), expected);
  auto gradient = grad([&](const Tensor& t) {
    const Tensor pooled = max_pool2d(t, {c.kernel}, c.options());
    return sum(mul(where(equal(dy, dy), pooled, pooled), dy));
  });
  // The sums are in the order of the windows.
  EXPECT_EQ(gradient(x).to_vector<double>(), expected_dx);
}

TEST_P(Pooling, MeanFollowsTheDefinition) {
  PoolingCase c = GetParam();
  if (c.dilation != 1) {
    EXPECT_THROW(avg_pool2d(zeros({2, 3, c.height, c.width}), {c.kernel}, c.options()), ShapeError);
    return;
  }
  const Tensor x = Rng(5).normal({2, 3, c.height, c.width}, 0, 1, DType::float64);
  const std::vector<double> in = x.to_vector<double>();
  const Tensor y = avg_pool2d(x, {c.kernel}, c.options());
  const auto outputs = static_cast<std::size_t>(y.shape()[2] * y.shape()[3]);
  const auto inputs = static_cast<std::size_t>(c.height * c.width);
  const Tensor dy = Rng(6).normal(y.shape(), 0, 1, DType::float64);
  const std::vector<double> cotangent = dy.to_vector<double>();
  std::vector<double> count(outputs);
  for_each_cell(c, [&](std::size_t output, std::int64_t cell) {
    count[output] += cell >= 0 || (cell == -1 && c.count_include_pad) ? 1 : 0;
  });
  std::vector<double> expected(6 * outputs);
  std::vector<double> expected_dx(6 * inputs);
  for (std::size_t plane = 0; plane < 6; ++plane) {
    for_each_cell(c, [&](std::size_t output, std::int64_t cell) {
      if (cell >= 0) {
        const std::size_t at = plane * inputs + static_cast<std::size_t>(cell);
        expected[plane * outputs + output] += in[at] / count[output];
        expected_dx[at] += cotangent[plane * outputs + output] / count[output];
      }
    });
  }
  const std::vector<double> actual = y.to_vector<double>();
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], 1e-13) << i;
  }
  auto gradient = grad([&](const Tensor& t) { return sum(mul(avg_pool2d(t, {c.kernel}, c.options()), dy)); });
  const std::vector<double> dx = gradient(x).to_vector<double>();
  for (std::size_t i = 0; i < dx.size(); ++i) {
    ASSERT_NEAR(dx[i], expected_dx[i], 1e-13) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, Pooling, ::testing::ValuesIn(pooling_grid()), [](const auto& instance) {
  const PoolingCase& c = instance.param;
  return fmt::format("x{}x{}_k{}_s{}_p{}_d{}{}", c.height, c.width, c.kernel, c.stride, c.padding, c.dilation,
                     c.ceil_mode ? "_ceil" : "");
});

TEST(AdaptivePooling, WindowsFollowTheDefinition) {
  for (const std::int64_t length : {1, 2, 5, 7, 12}) {
    for (const std::int64_t wanted : {1, 2, 3, 5, 12, 17}) {
      const Tensor x = Rng(7).normal({2, 1, length}, 0, 1, DType::float64);
      const std::vector<double> in = x.to_vector<double>();
      std::vector<double> means;
      std::vector<double> largest;
      for (std::int64_t plane = 0; plane < 2; ++plane) {
        for (std::int64_t o = 0; o < wanted; ++o) {
          const auto begin =
              static_cast<std::int64_t>(std::floor(static_cast<double>(o * length) / static_cast<double>(wanted)));
          const auto end =
              static_cast<std::int64_t>(std::ceil(static_cast<double>((o + 1) * length) / static_cast<double>(wanted)));
          double total = 0;
          double most = -kInfinity;
          for (std::int64_t i = begin; i < end; ++i) {
            total += in[static_cast<std::size_t>(plane * length + i)];
            most = std::max(most, in[static_cast<std::size_t>(plane * length + i)]);
          }
          means.push_back(total / static_cast<double>(end - begin));
          largest.push_back(most);
        }
      }
      EXPECT_EQ(adaptive_max_pool1d(x, {wanted}).to_vector<double>(), largest);
      const std::vector<double> actual = adaptive_avg_pool1d(x, {wanted}).to_vector<double>();
      for (std::size_t i = 0; i < means.size(); ++i) {
        EXPECT_NEAR(actual[i], means[i], 1e-14);
      }
    }
  }
  EXPECT_EQ(adaptive_avg_pool2d(zeros({2, 3, 7, 9}), {4, 2}).shape(), (Shape{2, 3, 4, 2}));
  EXPECT_EQ(adaptive_max_pool2d(zeros({2, 3, 7, 9}), {4}).shape(), (Shape{2, 3, 4, 4}));
}

TEST(GlobalPooling, HandComputed) {
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F, 6.0F, -1.0F, -2.0F, -3.0F, -6.0F}, {1, 2, 2, 2});
  EXPECT_EQ(global_avg_pool2d(x).shape(), (Shape{1, 2, 1, 1}));
  EXPECT_THAT(global_avg_pool2d(x).to_vector<float>(), ElementsAre(3, -3));
  EXPECT_THAT(global_max_pool2d(x).to_vector<float>(), ElementsAre(6, -1));
  const Tensor lines = reshape(x, {1, 2, 4});
  EXPECT_THAT(global_avg_pool1d(lines).to_vector<float>(), ElementsAre(3, -3));
  EXPECT_THAT(global_max_pool1d(lines).to_vector<float>(), ElementsAre(6, -1));
}

TEST(Pooling1d, HandComputed) {
  const Tensor x = Tensor::from({1.0F, 5.0F, 2.0F, 4.0F, 3.0F}, {1, 1, 5});
  EXPECT_THAT(max_pool1d(x, {2}).to_vector<float>(), ElementsAre(5, 4));
  EXPECT_THAT(max_pool1d(x, {2}, {.ceil_mode = true}).to_vector<float>(), ElementsAre(5, 4, 3));
  EXPECT_THAT(avg_pool1d(x, {3}, {.stride = {2}, .padding = {1}}).to_vector<float>(),
              ElementsAre(2, 11.0F / 3, 7.0F / 3));
  EXPECT_THAT(avg_pool1d(x, {3}, {.stride = {2}, .padding = {1}, .count_include_pad = false}).to_vector<float>(),
              ElementsAre(3, 11.0F / 3, 3.5F));
  EXPECT_THAT(max_pool1d(x, {2}, {.stride = {1}, .padding = {1, 0}}).to_vector<float>(), ElementsAre(1, 5, 5, 4, 4));
}

TEST(MaxPool, NanWinsAndTakesTheGradient) {
  for (std::size_t position = 0; position < 4; ++position) {
    for (const bool adaptive : {false, true}) {
      std::vector<float> values = {1, INFINITY, 3, 4};
      values[position] = NAN;
      const Tensor x = Tensor::from(values, {1, 1, 2, 2});
      const auto pooled = [=](const Tensor& t) { return adaptive ? adaptive_max_pool2d(t, {1}) : max_pool2d(t, {2}); };
      EXPECT_TRUE(std::isnan(pooled(x).item()));
      std::vector<float> expected(4, 0.0F);
      expected[position] = 1;
      EXPECT_EQ(grad([&](const Tensor& t) { return sum(pooled(t)); })(x).to_vector<float>(), expected);
    }
  }
}

TEST(MaxPool, PaddingNeverWinsAndInfinityIsAValue) {
  const Tensor x = full({1, 1, 3, 3}, -kInfinity);
  const PoolOptions options{.stride = {2}, .padding = {1}};
  EXPECT_THAT(max_pool2d(x, {3}, options).to_vector<double>(), Each(-kInfinity));
  // All equal: the first element that isn't padding.
  auto f = grad([&](const Tensor& t) { return sum(max_pool2d(t, {3}, options)); });
  EXPECT_THAT(f(x).to_vector<float>(), ElementsAre(1, 1, 0, 1, 1, 0, 0, 0, 0));
  EXPECT_THAT(max_pool2d(full({1, 1, 3, 3}, -5), {3}, options).to_vector<float>(), Each(-5));
}

TEST(Pooling2d, EagerAndGraphAgree) {
  const Tensor x = Rng(1).normal({2, 3, 11, 9});
  auto f = value_and_grad([](const Tensor& t) {
    const Tensor a = max_pool2d(t, {3}, {.stride = {2}, .padding = {1}});
    return sum(square(avg_pool2d(a, {2}, {.stride = {1}}))) + sum(square(adaptive_avg_pool2d(t, {2, 3})));
  });
  auto graph = jit([&](const Tensor& t) { return f(t).arguments; });
  EXPECT_TRUE(bitwise_equal(f(x).arguments[0], graph(x)[0]));
  EXPECT_TRUE(bitwise_equal(f(x).arguments[0], graph(x)[0]));
}

TEST(Pooling2d, RefusesWhatMakesNoSense) {
  const Tensor x = zeros({1, 2, 6, 6});
  constexpr std::int64_t kHuge = INT64_MAX;
  for (const bool mean : {false, true}) {
    const auto pooled = [&](const Tensor& t, const Dims& kernel, const PoolOptions& options) {
      return message_of<ShapeError>([&] { mean ? avg_pool2d(t, kernel, options) : max_pool2d(t, kernel, options); });
    };
    EXPECT_THAT(pooled(x, {0}, {}), HasSubstr("a kernel of length 0"));
    EXPECT_THAT(pooled(x, {kHuge}, {.stride = {1}}), HasSubstr("kernel"));
    EXPECT_THAT(pooled(x, {7}, {}), AllOf(HasSubstr("reaches over 7 cells"), HasSubstr("f32[1,2,6,6]")));
    EXPECT_THAT(pooled(x, {2}, {.stride = {0}}), HasSubstr("a stride of 0"));
    EXPECT_THAT(pooled(x, {2}, {.stride = {-1}}), HasSubstr("a stride of -1"));
    EXPECT_THAT(pooled(x, {2}, {.padding = {2}}), HasSubstr("over half of the kernel"));
    EXPECT_THAT(pooled(x, {2}, {.padding = {-1}}), HasSubstr("a padding of -1"));
    EXPECT_THAT(pooled(x, {2}, {.dilation = {0}}), HasSubstr("dilation"));
    EXPECT_THAT(pooled(x, {2}, {.dilation = {kHuge}}), HasSubstr("dilation"));
    EXPECT_THAT(pooled(x, {1, 2, 3}, {}), HasSubstr("kernel_size [1,2,3]"));
    EXPECT_THAT(pooled(zeros({2, 6, 6}), {2}, {}), HasSubstr("4 axes"));
  }
  EXPECT_THAT(message_of<ShapeError>([&] { adaptive_avg_pool2d(x, {-1}); }), HasSubstr("out of range"));
  EXPECT_THAT(message_of<ShapeError>([&] { adaptive_max_pool2d(x, {kHuge}); }), HasSubstr("out of range"));
  EXPECT_THAT(message_of<ShapeError>([&] { adaptive_max_pool2d(x, {1 << 30}); }), HasSubstr("cannot be"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                adaptive_avg_pool2d(zeros({1, 2, 0, 6}), {2});
              }),
              HasSubstr("no element to take"));
  EXPECT_THAT(message_of<ShapeError>([&] { max_pool1d(x, {2}); }), HasSubstr("3 axes"));
  EXPECT_THROW(max_pool2d(zeros({1, 1, 2, 2}, DType::int64), {2}), DTypeError);
}

TEST(Pooling2d, HugeWindowsOverLittleCostLittle) {
  constexpr std::int64_t kLong = 1 << 28;
  const Tensor x = full({1, 1, 2, 2}, 3);
  // Half of the kernel as padding on each side: one window that holds everything.
  const PoolOptions options{.stride = {kLong}, .padding = {kLong / 2}};
  EXPECT_EQ(max_pool2d(x, {kLong}, options).to_vector<float>().at(0), 3);
  EXPECT_EQ(avg_pool2d(zeros({0, 4, kLong, 1}), {1}).shape(), (Shape{0, 4, kLong, 1}));
}

}  // namespace
}  // namespace diptych
