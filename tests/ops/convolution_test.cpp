// Convolutions against loops written from the definition, in double.

#include "framework/kernels/convolution.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/allocator.h"
#include "framework/core/isa.h"
#include "framework/diptych.h"
#include "tests/support/message_of.h"
#include "tests/support/with_isa.h"
#include "tests/support/with_threads.h"

namespace diptych {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

struct ConvolutionCase {
  std::int64_t batch, channels, height, width, outputs, kernel_h, kernel_w;
  Conv2dOptions options;
};

std::int64_t at(const Dims& list, int i) { return list.rank() == 1 ? list[0] : list[i]; }

struct Geometry {
  std::int64_t stride_h, stride_w, top, bottom, left, right, dilation_h, dilation_w;
  explicit Geometry(const Conv2dOptions& o)
      : stride_h(at(o.stride, 0)),
        stride_w(at(o.stride, 1)),
        top(at(o.padding, 0)),
        bottom(o.padding.rank() == 4 ? o.padding[1] : top),
        left(o.padding.rank() == 4 ? o.padding[2] : at(o.padding, 1)),
        right(o.padding.rank() == 4 ? o.padding[3] : left),
        dilation_h(at(o.dilation, 0)),
        dilation_w(at(o.dilation, 1)) {}
};

struct Sizes {
  std::int64_t height, width;
};
Sizes result_size(const ConvolutionCase& c) {
  const Geometry g(c.options);
  return {(c.height + g.top + g.bottom - g.dilation_h * (c.kernel_h - 1) - 1) / g.stride_h + 1,
          (c.width + g.left + g.right - g.dilation_w * (c.kernel_w - 1) - 1) / g.stride_w + 1};
}

/// Calls `fn(index in x, index in weight, index in y)` for every product of the definition.
template <class Fn>
void for_each_product(const ConvolutionCase& c, const Fn& fn) {
  const Geometry g(c.options);
  const Sizes size = result_size(c);
  const std::int64_t group_in = c.channels / c.options.groups;
  const std::int64_t group_out = c.outputs / c.options.groups;
  for (std::int64_t n = 0; n < c.batch; ++n) {
    for (std::int64_t o = 0; o < c.outputs; ++o) {
      for (std::int64_t y = 0; y < size.height; ++y) {
        for (std::int64_t x = 0; x < size.width; ++x) {
          for (std::int64_t i = 0; i < group_in; ++i) {
            for (std::int64_t k = 0; k < c.kernel_h; ++k) {
              for (std::int64_t l = 0; l < c.kernel_w; ++l) {
                const std::int64_t row = y * g.stride_h + k * g.dilation_h - g.top;
                const std::int64_t column = x * g.stride_w + l * g.dilation_w - g.left;
                if (row >= 0 && row < c.height && column >= 0 && column < c.width) {
                  const std::int64_t channel = o / group_out * group_in + i;
                  fn(static_cast<std::size_t>(((n * c.channels + channel) * c.height + row) * c.width + column),
                     static_cast<std::size_t>(((o * group_in + i) * c.kernel_h + k) * c.kernel_w + l),
                     static_cast<std::size_t>(((n * c.outputs + o) * size.height + y) * size.width + x));
                }
              }
            }
          }
        }
      }
    }
  }
}

std::vector<ConvolutionCase> convolution_grid() {
  std::vector<ConvolutionCase> cases;
  for (const std::int64_t stride : {1, 2, 3}) {
    for (const std::int64_t padding : {0, 1, 2}) {
      for (const std::int64_t dilation : {1, 2}) {
        for (const std::int64_t groups : {1, 2, 4}) {
          cases.push_back({2, 4, 9, 7, 8, 3, 2, {{stride}, {padding}, {dilation}, groups}});
        }
      }
    }
  }
  cases.push_back({1, 3, 5, 8, 2, 1, 1, {}});
  cases.push_back({3, 2, 5, 5, 3, 1, 1, {{2}, {0}, {1}, 1}});
  cases.push_back({1, 1, 6, 5, 1, 6, 5, {}});                                 // one output
  cases.push_back({2, 2, 4, 6, 2, 3, 3, {{1, 2}, {2, 0, 1, 3}, {1, 2}, 1}});  // every side different
  cases.push_back({1, 6, 7, 5, 6, 3, 3, {{2, 1}, {0, 1, 2, 0}, {2, 1}, 6}});
  cases.push_back({1, 2, 3, 3, 2, 2, 2, {{1}, {4}, {1}, 1}});           // windows of padding alone
  cases.push_back({1, 2, 3, 3, 4, 2, 2, {{5}, {4}, {3}, 2}});           // stride beyond the kernel, depthwise
  cases.push_back({0, 3, 4, 4, 2, 3, 3, {}});                           // no image
  cases.push_back({2, 0, 4, 4, 2, 3, 3, {}});                           // no channel: the bias alone
  cases.push_back({2, 3, 4, 4, 0, 3, 3, {}});                           // no output
  cases.push_back({1, 5, 4, 0, 3, 3, 1, {{1}, {1, 1, 0, 1}, {1}, 1}});  // an empty plane, padded
  cases.push_back({70, 3, 4, 5, 5, 3, 3, {{1}, {1}, {1}, 1}});          // several shared products
  cases.push_back({1, 300, 90, 90, 2, 3, 3, {{1}, {1}, {1}, 1}});       // a plane in pieces
  cases.push_back({1, 8, 11, 300, 8, 3, 3, {{1}, {1}, {1}, 8}});
  cases.push_back({1, 2, 4, 1100, 3, 3, 3, {{1}, {1}, {1}, 1}});          // a row in pieces
  cases.push_back({2, 40, 13, 60, 19, 3, 3, {{1}, {1}, {1}, 1}});         // wide rows, several blocks of channels
  cases.push_back({2, 5, 23, 61, 21, 7, 7, {{2}, {3}, {1}, 1}});          // a block ends within a channel's taps
  cases.push_back({3, 70, 9, 9, 35, 3, 3, {{2}, {1}, {1}, 1}});           // images and channels don't fill their blocks
  cases.push_back({1, 1, 22, 24, 2, 20, 21, {{1}, {2}, {1}, 1}});         // more taps than a block has rows
  cases.push_back({2, 1, 5, 5, 1030, 1, 1, {}});                          // more outputs than a pass
  cases.push_back({1, 2, 3, 3, 2, 2, 2, {{90}, {100}, {100}, 1}});        // most of all cells are padding
  cases.push_back({2, 3, 12, 10, 5, 3, 4, {{4, 6}, {1, 2}, {6, 4}, 1}});  // stride and dilation share a factor
  cases.push_back({2, 4, 12, 20, 8, 4, 5, {{4, 5}, {0}, {1}, 2}});        // patches that cover everything
  cases.push_back({2, 3, 34, 32, 600, 16, 16, {{16}, {0}, {1}, 1}});      // rows behind them, several blocks of outputs
  cases.push_back({3, 2, 17, 14, 4, 3, 2, {{5, 4}, {0}, {1}, 1}});        // gaps between them
  cases.push_back({2, 3, 15, 14, 4, 4, 4, {{4}, {0, 1, 0, 2}, {1}, 1}});  // the last ones padded
  cases.push_back({1, 5, 30, 45, 3, 15, 15, {{15}, {0}, {1}, 1}});        // more cells than outputs of a pass
  cases.push_back({2, 20, 25, 27, 32, 3, 2, {{3, 2}, {1, 2, 0, 1}, {2, 1}, 1}});  // vectors of outputs, both ways
  cases.push_back({1, 24, 33, 31, 24, 2, 3, {{2}, {1}, {3}, 1}});
  cases.push_back({3, 32, 20, 20, 16, 2, 2, {{19}, {120}, {120}, 1}});  // copies of the source would be too large
  return cases;
}

std::string name_of_case(const ::testing::TestParamInfo<ConvolutionCase>& info) {
  return fmt::format("case{}", info.index);
}

class Convolution : public ::testing::TestWithParam<ConvolutionCase> {
 protected:
  Convolution() {
    Rng rng(3);
    const ConvolutionCase& c = GetParam();
    x_ = rng.normal({c.batch, c.channels, c.height, c.width}, 0, 1, DType::float64);
    weight_ = rng.normal({c.outputs, c.channels / c.options.groups, c.kernel_h, c.kernel_w}, 0, 1, DType::float64);
    bias_ = rng.normal({c.outputs}, 0, 1, DType::float64);
    dy_ = rng.normal({c.batch, c.outputs, result_size(c).height, result_size(c).width}, 0, 1, DType::float64);
  }

  static void expect_near(const Tensor& actual, const Tensor& in_floats, const std::vector<double>& expected,
                          const char* what) {
    const std::vector<double> values = actual.to_vector<double>();
    const std::vector<double> rounded = in_floats.to_vector<double>();
    ASSERT_EQ(values.size(), expected.size()) << what;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(values[i], expected[i], 1e-11) << what << ", element " << i;
      ASSERT_NEAR(rounded[i], expected[i], 2e-3) << what << " in f32, element " << i;
    }
  }
  static Tensor f32(const Tensor& t) { return cast(t, DType::float32); }

  Tensor x_, weight_, bias_, dy_;
};

TEST_P(Convolution, FollowsTheDefinition) {
  const ConvolutionCase& c = GetParam();
  const std::vector<double> x = x_.to_vector<double>();
  const std::vector<double> w = weight_.to_vector<double>();
  std::vector<double> expected;
  for (const bool with_bias : {false, true}) {
    expected.assign(static_cast<std::size_t>(dy_.numel()), 0);
    if (with_bias) {
      const std::int64_t plane = result_size(c).height * result_size(c).width;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] =
            bias_.to_vector<double>()[i / static_cast<std::size_t>(plane) % static_cast<std::size_t>(c.outputs)];
      }
    }
    for_each_product(c, [&](std::size_t a, std::size_t b, std::size_t y) { expected[y] += x[a] * w[b]; });
    const Tensor y = conv2d(x_, weight_, with_bias ? bias_ : Tensor(), c.options);
    EXPECT_EQ(y.shape(), dy_.shape());
    expect_near(y, conv2d(f32(x_), f32(weight_), with_bias ? f32(bias_) : Tensor(), c.options), expected, "y");
  }
}

TEST_P(Convolution, GradientsFollowTheDefinition) {
  const ConvolutionCase& c = GetParam();
  const std::vector<double> x = x_.to_vector<double>();
  const std::vector<double> w = weight_.to_vector<double>();
  const std::vector<double> dy = dy_.to_vector<double>();
  std::vector<double> dx(x.size());
  std::vector<double> dw(w.size());
  for_each_product(c, [&](std::size_t a, std::size_t b, std::size_t y) {
    dx[a] += dy[y] * w[b];
    dw[b] += dy[y] * x[a];
  });
  const Dims size{c.height, c.width};
  const Dims kernel{c.kernel_h, c.kernel_w};
  expect_near(conv2d_input_gradient(dy_, weight_, size, c.options),
              conv2d_input_gradient(f32(dy_), f32(weight_), size, c.options), dx, "dx");
  if (c.channels > 0) {
    expect_near(conv2d_weight_gradient(x_, dy_, kernel, c.options),
                conv2d_weight_gradient(f32(x_), f32(dy_), kernel, c.options), dw, "dw");
  }
}

INSTANTIATE_TEST_SUITE_P(Grid, Convolution, ::testing::ValuesIn(convolution_grid()), name_of_case);

TEST(Conv2d, HandComputed) {
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F, 7.0F, 8.0F, 9.0F}, {1, 1, 3, 3});
  const Tensor w = Tensor::from({1.0F, 0.0F, 0.0F, -1.0F}, {1, 1, 2, 2});
  EXPECT_THAT(conv2d(x, w).to_vector<float>(), ElementsAre(-4, -4, -4, -4));
  EXPECT_THAT(conv2d(x, w, Tensor::from({10.0F}, {1}), {.stride = {2}, .padding = {1}}).to_vector<float>(),
              ElementsAre(9, 7, 3, 6));
}

class BitsOfConvolutions : public ::testing::TestWithParam<ConvolutionCase> {};

/// The sum of docs/numerics.md, by ungrouped convolutions.
template <class T>
std::vector<T> by_definition(const ConvolutionCase& c, const Tensor& x, const Tensor& w, const Tensor& bias) {
  const std::vector<T> in = x.to_vector<T>();
  const std::vector<T> weights = w.to_vector<T>();
  const std::vector<T> start = bias.defined() ? bias.to_vector<T>() : std::vector<T>();
  const auto [height, width] = result_size(c);
  const std::int64_t stride = c.options.stride[0];
  const std::int64_t before = c.options.padding[0];
  const std::int64_t taps = c.kernel_h * c.kernel_w;
  std::vector<T> result;
  for (std::int64_t i = 0; i < c.batch * c.outputs * height * width; ++i) {
    const std::int64_t column = i % width * stride - before;
    const std::int64_t row = i / width % height * stride - before;
    const std::int64_t output = i / (width * height) % c.outputs;
    const std::int64_t image = i / (width * height * c.outputs);
    const auto value = [&](std::int64_t k) {
      const std::int64_t h = row + k % taps / c.kernel_w;
      const std::int64_t v = column + k % c.kernel_w;
      const bool inside = h >= 0 && h < c.height && v >= 0 && v < c.width;
      return inside ? in[static_cast<std::size_t>(((image * c.channels + k / taps) * c.height + h) * c.width + v)]
                    : T(0);
    };
    T total = bias.defined() ? start[static_cast<std::size_t>(output)] : T(0);
    for (std::int64_t begin = 0; begin < c.channels * taps; begin += 256) {
      T sum = 0;
      for (std::int64_t k = begin; k < std::min(begin + 256, c.channels * taps); ++k) {
        sum = std::fma(weights[static_cast<std::size_t>(output * c.channels * taps + k)], value(k), sum);
      }
      total = begin == 0 && !bias.defined() ? sum : total + sum;
    }
    result.push_back(total);
  }
  return result;
}

TEST_P(BitsOfConvolutions, AreThoseOfTheDefinition) {
  const ConvolutionCase& c = GetParam();
  if (c.options.groups > 1) {
    GTEST_SKIP() << "groups of few channels have another definition";
  }
  const Tensor x = Rng(5).normal({c.batch, c.channels, c.height, c.width});
  const Tensor w = Rng(6).normal({c.outputs, c.channels, c.kernel_h, c.kernel_w});
  for (const Tensor& bias : {Tensor(), Rng(7).normal({c.outputs})}) {
    const Tensor result = conv2d(x, w, bias, c.options);
    EXPECT_TRUE(bitwise_equal(result, Tensor::from(by_definition<float>(c, x, w, bias), result.shape())));
  }
}

struct Operands {
  Tensor x, w, b, dy;
};
Operands operands_of(const ConvolutionCase& c, DType dtype) {
  Rng rng(5);
  Operands drawn;
  drawn.x = rng.normal({c.batch, c.channels, c.height, c.width}, 0, 1, dtype);
  drawn.w = rng.normal({c.outputs, c.channels / c.options.groups, c.kernel_h, c.kernel_w}, 0, 1, dtype);
  drawn.b = rng.normal({c.outputs}, 0, 1, dtype);
  drawn.dy = rng.normal({c.batch, c.outputs, result_size(c).height, result_size(c).width}, 0, 1, dtype);
  return drawn;
}

kernels::ConvolutionShape shape_of(const ConvolutionCase& c) {
  const Geometry g(c.options);
  const auto [height, width] = result_size(c);
  return {c.batch,
          c.options.groups,
          c.channels / c.options.groups,
          c.outputs / c.options.groups,
          {c.height, height, c.kernel_h, g.stride_h, g.dilation_h, g.top},
          {c.width, width, c.kernel_w, g.stride_w, g.dilation_w, g.left}};
}

// Of 1 x 1, planes are multiplied where they lie. The same positions are added up in the same order for one of two
// taps, whose other one reads the row below: x is then read value by value.
TEST_P(BitsOfConvolutions, GradientsOfOneTapAreThoseOfOneOfTwo) {
  const ConvolutionCase& c = GetParam();
  if (c.kernel_h * c.kernel_w > 1 || c.options.groups > 1 || c.options.stride[0] > 1) {
    GTEST_SKIP() << "not one tap at stride 1, or groups";
  }
  const Operands of = operands_of(c, DType::float32);
  const Tensor two = conv2d_weight_gradient(of.x, of.dy, {2, 1}, {.padding = {0, 1, 0, 0}});
  EXPECT_TRUE(bitwise_equal(conv2d_weight_gradient(of.x, of.dy, {1, 1}, c.options), copy(slice(two, 2, 0, 1))));
}

// Graphs pack the weights once. All ways of computing have the same bits.
template <class T>
void expect_bits_of_packed_weights(const ConvolutionCase& c, const Operands& of) {
  const DType dtype = of.x.dtype();
  const std::size_t bytes = kernels::packed_weights_bytes(shape_of(c), dtype);
  if (bytes == 0) {
    GTEST_SKIP() << "packing doesn't pay for this shape";
  }
  const StorageRef packed = allocate_storage(bytes);
  kernels::pack_weights(shape_of(c), dtype, of.w.data<T>(), packed->data());
  const Tensor expected = conv2d(of.x, of.w, of.b, c.options);
  for (const int threads : {1, 2, 3}) {
    const testing::WithThreads with(threads, true);
    Tensor result = Tensor::empty(dtype, expected.shape());
    kernels::convolution(shape_of(c), dtype, of.x.data<T>(), of.w.data<T>(), of.b.data<T>(), result.mutable_data<T>(),
                         nullptr, packed->data());
    EXPECT_TRUE(bitwise_equal(result, expected)) << name_of(dtype) << ' ' << threads;
  }
}
TEST_P(BitsOfConvolutions, AreThoseOfPackedWeights) {
  const ConvolutionCase& c = GetParam();
  for (const DType dtype : {DType::float32, DType::float64}) {
    dtype == DType::float32 ? expect_bits_of_packed_weights<float>(c, operands_of(c, dtype))
                            : expect_bits_of_packed_weights<double>(c, operands_of(c, dtype));
  }
}

TEST_P(BitsOfConvolutions, AreTheSameOnEveryInstructionSetAndNumberOfThreads) {
  const ConvolutionCase& c = GetParam();
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Operands of = operands_of(c, dtype);
    const auto results = [&] {
      return std::vector<Tensor>{conv2d(of.x, of.w, of.b, c.options),
                                 conv2d_input_gradient(of.dy, of.w, {c.height, c.width}, c.options),
                                 conv2d_weight_gradient(of.x, of.dy, {c.kernel_h, c.kernel_w}, c.options)};
    };
    const std::vector<Tensor> expected = [&] {
      const testing::WithIsa with(Isa::generic);
      return results();
    }();
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (is_supported(isa)) {
        const testing::WithIsa with(isa);
        const std::vector<Tensor> actual = results();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(bitwise_equal(actual[i], expected[i])) << kIsaNames[static_cast<std::size_t>(isa)] << ' ' << i;
        }
      }
    }
    for (const int threads : {2, 3, 4}) {
      const testing::WithThreads with(threads, true);
      const std::vector<Tensor> actual = results();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(bitwise_equal(actual[i], expected[i])) << threads << " threads " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, BitsOfConvolutions,
                         ::testing::Values(ConvolutionCase{1, 33, 12, 56, 21, 3, 3, {{1}, {1}, {1}, 1}},
                                           ConvolutionCase{3, 37, 7, 7, 50, 3, 3, {{1}, {1}, {1}, 1}},
                                           ConvolutionCase{2, 33, 15, 15, 13, 3, 3, {{2}, {1}, {1}, 1}},
                                           ConvolutionCase{1, 3, 40, 120, 10, 7, 7, {{2}, {3}, {1}, 1}},
                                           ConvolutionCase{2, 70, 6, 6, 65, 1, 1, {{2}, {0}, {1}, 1}},
                                           ConvolutionCase{9, 12, 9, 8, 24, 3, 3, {{2}, {1}, {1}, 12}},
                                           ConvolutionCase{1, 300, 5, 5, 17, 1, 1, {}},
                                           // Vectors of outputs: padded, strided, read where they lie, two groups,
                                           // one position, many panels of outputs, images side by side.
                                           ConvolutionCase{1, 30, 28, 28, 64, 3, 3, {{1}, {1}, {1}, 1}},
                                           ConvolutionCase{2, 35, 17, 19, 80, 3, 3, {{2}, {1}, {1}, 1}},
                                           ConvolutionCase{2, 3, 48, 64, 48, 8, 8, {{8}, {0}, {1}, 1}},
                                           ConvolutionCase{1, 64, 14, 14, 96, 3, 3, {{1}, {1}, {1}, 2}},
                                           ConvolutionCase{1, 300, 1, 1, 64, 1, 1, {}},
                                           ConvolutionCase{1, 40, 7, 7, 1100, 3, 3, {{1}, {1}, {1}, 1}},
                                           ConvolutionCase{20, 17, 4, 4, 61, 3, 3, {{1}, {1}, {1}, 1}},
                                           // Planes where they lie: several blocks of channels, two groups, planes in
                                           // pieces, many images, a kernel's dilation, one output, one channel.
                                           ConvolutionCase{3, 300, 14, 14, 70, 1, 1, {}},
                                           ConvolutionCase{2, 40, 17, 19, 24, 1, 1, {{1}, {0}, {1}, 2}},
                                           ConvolutionCase{1, 20, 40, 33, 13, 1, 1, {}},
                                           ConvolutionCase{9, 33, 14, 15, 40, 1, 1, {}},
                                           ConvolutionCase{2, 18, 3, 300, 35, 1, 1, {{1}, {0}, {3}, 1}},
                                           ConvolutionCase{2, 270, 12, 12, 1, 1, 1, {}},
                                           ConvolutionCase{2, 1, 16, 16, 19, 1, 1, {}}),
                         name_of_case);

// A sum of 4608 products of normal numbers is itself about 68: its error must be that of blocks, not of one long chain.
TEST(Conv2d, IsAccurateForDeepSums) {
  const Tensor x = Rng(1).normal({1, 512, 7, 7}, 0, 1, DType::float64);
  const Tensor w = Rng(2).normal({64, 512, 3, 3}, 0, 1, DType::float64);
  const Tensor exact = conv2d(x, w, {}, {.padding = {1}});
  const Tensor rounded = conv2d(cast(x, DType::float32), cast(w, DType::float32), {}, {.padding = {1}});
  const Tensor inputs = cast(cast(x, DType::float32), DType::float64);
  const Tensor weights = cast(cast(w, DType::float32), DType::float64);
  const Tensor of_rounded = conv2d(inputs, weights, {}, {.padding = {1}});
  EXPECT_LT(max(abs(sub(cast(rounded, DType::float64), of_rounded))).to_vector<double>()[0], 1.5e-4);
  EXPECT_LT(max(abs(sub(exact, of_rounded))).to_vector<double>()[0], 1e-4);
}

TEST(Conv2d, BiasGradientIsTheSum) {
  const Tensor x = Rng(1).normal({2, 3, 4, 4}, 0, 1, DType::float64);
  const Tensor w = Rng(2).normal({5, 3, 3, 3}, 0, 1, DType::float64);
  auto f = grad([&](const Tensor& b) { return sum(conv2d(x, w, b)); });
  EXPECT_THAT(f(zeros({5}, DType::float64)).to_vector<double>(), ElementsAre(8, 8, 8, 8, 8));
}

TEST(Conv2d, ViewsGiveTheBitsOfTheirCopies) {
  const Tensor x = transpose(Rng(1).normal({2, 3, 6, 5}));
  const Tensor w = transpose(Rng(2).normal({4, 3, 2, 3}));
  EXPECT_TRUE(bitwise_equal(conv2d(x, w), conv2d(copy(x), copy(w))));
}

TEST(Conv2d, NanReachesTheWindowsThatReadIt) {
  for (const std::int64_t groups : {1, 2}) {
    std::vector<float> values(32, 1.0F);
    values[5] = NAN;  // row 1, column 1 of channel 0
    const Tensor x = Tensor::from(values, {1, 2, 4, 4});
    const Tensor y = conv2d(x, ones({2, 2 / groups, 2, 2}), {}, {.groups = groups});
    const std::vector<float> out = y.to_vector<float>();
    for (std::size_t i = 0; i < 9; ++i) {
      EXPECT_EQ(std::isnan(out[i]), i / 3 < 2 && i % 3 < 2) << i;
      EXPECT_EQ(std::isnan(out[i + 9]), groups == 1 && i / 3 < 2 && i % 3 < 2) << i;
    }
    // A NaN beside a row's end doesn't leak into weights that never meet it.
    const Tensor dw = conv2d_weight_gradient(x, ones({1, 2, 3, 3}), {2, 2}, {.groups = groups});
    EXPECT_TRUE(std::isnan(dw.to_vector<float>()[0]));
  }
  std::vector<float> corner(32, 1.0F);
  corner[15] = NAN;  // only the last tap reads the last element
  const std::vector<float> dw =
      conv2d_weight_gradient(Tensor::from(corner, {1, 2, 4, 4}), ones({1, 2, 3, 3}), {2, 2}, {.groups = 2})
          .to_vector<float>();
  EXPECT_THAT(std::vector<float>(dw.begin(), dw.begin() + 3), ElementsAre(9, 9, 9));
  EXPECT_TRUE(std::isnan(dw[3]));
}

TEST(Conv1d, IsTheDefinition) {
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F}, {1, 1, 5});
  const Tensor w = Tensor::from({1.0F, -2.0F}, {1, 1, 2});
  EXPECT_THAT(conv1d(x, w).to_vector<float>(), ElementsAre(-3, -4, -5, -6));
  EXPECT_THAT(
      conv1d(x, w, Tensor::from({1.0F}, {1}), {.stride = {2}, .padding = {1, 0}, .dilation = {2}}).to_vector<float>(),
      ElementsAre(-3, -5));  // 0 - 2 * 2 + 1, 2 - 2 * 4 + 1
  EXPECT_THROW(conv1d(zeros({1, 1, 5, 5}), w), ShapeError);
}

TEST(Conv2d, EagerAndGraphAgreeThroughATrainingStep) {
  const Tensor x = Rng(1).normal({3, 4, 9, 9});
  const Tensor w = Rng(2).normal({6, 2, 3, 3});
  const Tensor b = Rng(3).normal({6});
  auto eager = value_and_grad(
      [](const Tensor& p, const Tensor& q, const Tensor& r) {
        return sum(square(conv2d(p, q, r, {.stride = {2}, .padding = {1}, .groups = 2})));
      },
      {.arguments = {0, 1, 2}});
  auto graph = jit([&](const Tensor& p, const Tensor& q, const Tensor& r) { return eager(p, q, r).arguments; });
  const std::vector<Tensor> expected = eager(x, w, b).arguments;
  for (int call = 0; call < 2; ++call) {
    const std::vector<Tensor> actual = graph(x, w, b);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(bitwise_equal(actual[i], expected[i])) << i;
    }
  }
}

TEST(Conv2d, PromotesTypes) {
  EXPECT_EQ(conv2d(ones({1, 1, 2, 2}, DType::int64), ones({1, 1, 2, 2})).dtype(), DType::float32);
  EXPECT_EQ(conv2d(ones({1, 1, 2, 2}, DType::bfloat16), ones({1, 1, 2, 2}, DType::bfloat16)).dtype(), DType::bfloat16);
  EXPECT_THROW(conv2d(ones({1, 1, 2, 2}, DType::int64), ones({1, 1, 2, 2}, DType::int64)), DTypeError);
}

TEST(Conv2d, RefusesWhatMakesNoSense) {
  const Tensor x = zeros({2, 4, 5, 5});
  const Tensor w = zeros({6, 4, 3, 3});
  constexpr std::int64_t kHuge = INT64_MAX;
  const auto with = [&](const Conv2dOptions& options) {
    return message_of<ShapeError>([&] { conv2d(x, w, {}, options); });
  };
  EXPECT_THAT(with({.stride = {0}}), AllOf(HasSubstr("a stride of 0 is out of range"), HasSubstr("f32[2,4,5,5]"),
                                           HasSubstr("f32[6,4,3,3]"), HasSubstr("at least 1")));
  EXPECT_THAT(with({.stride = {1, -2}}), HasSubstr("stride"));
  EXPECT_THAT(with({.padding = {-1}}), HasSubstr("a padding of -1"));
  EXPECT_THAT(with({.padding = {kHuge}}), HasSubstr("padding"));
  EXPECT_THAT(with({.padding = {0, 0, 0, kHuge}}), HasSubstr("padding"));
  EXPECT_THAT(with({.dilation = {0}}), HasSubstr("a dilation of 0"));
  EXPECT_THAT(with({.dilation = {kHuge}}), HasSubstr("dilation"));
  EXPECT_THAT(with({.dilation = {3}}), HasSubstr("the kernel reaches over 7 cells, the padded input has 5"));
  EXPECT_THAT(with({.padding = {(std::int64_t{1} << 31) - 1}}), HasSubstr("2^31"));
  EXPECT_THAT(with({.groups = 0}), HasSubstr("0 groups"));
  EXPECT_THAT(with({.groups = -1}), HasSubstr("-1 groups"));
  EXPECT_THAT(with({.groups = 4}), HasSubstr("6 output channels don't divide into 4 groups"));
  EXPECT_THAT(with({.groups = 2}), HasSubstr("the input has 4 channels in 2 groups, the weight takes 4 a group"));
  EXPECT_THAT(with({.groups = kHuge}), HasSubstr("groups"));
  EXPECT_THAT(with({.stride = {1, 2, 3}}), HasSubstr("stride [1,2,3] doesn't fit 2 spatial axes"));
  EXPECT_THAT(with({.padding = {1, 2, 3}}), HasSubstr("padding [1,2,3]"));
  EXPECT_THAT(with({.dilation = {}}), HasSubstr("dilation []"));
  EXPECT_THAT(message_of<ShapeError>([&] { conv2d(x, zeros({6, 4, 3})); }), HasSubstr("input 1 has not 4 axes"));
  EXPECT_THAT(message_of<ShapeError>([&] { conv2d(x, zeros({6, 4, 0, 3})); }), HasSubstr("a kernel of length 0"));
  EXPECT_THAT(message_of<ShapeError>([&] { conv2d(x, zeros({6, 4, 6, 3})); }), HasSubstr("reaches over 6 cells"));
  EXPECT_THAT(message_of<ShapeError>([&] { conv2d(x, w, zeros({5})); }),
              HasSubstr("the bias has 5 elements for 6 output channels"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                conv2d_input_gradient(zeros({2, 6, 3, 3}), w, {6, 5});
              }),
              HasSubstr("dy [2,6,3,3]"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                conv2d_input_gradient(zeros({2, 6, 3, 3}), w, {-1, 5});
              }),
              HasSubstr("out of range"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                conv2d_input_gradient(zeros({2, 6, 3, 3}), w, {5, 5}, {.groups = kHuge});
              }),
              HasSubstr("groups"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                conv2d_weight_gradient(x, zeros({2, 6, 3, 3}), {4, 3});
              }),
              HasSubstr("dy [2,6,3,3]"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                conv2d_weight_gradient(x, zeros({2, 6, 3, 3}), {kHuge, 3});
              }),
              HasSubstr("range"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                conv2d_weight_gradient(x, zeros({2, 6, 3, 3}), {3, 3}, {.groups = 3});
              }),
              HasSubstr("groups"));
}

TEST(Conv2d, EmptyShapesOfAnyLengthCostNothing) {
  constexpr std::int64_t kLong = std::int64_t{1} << 30;
  EXPECT_EQ(conv2d(zeros({0, 4, kLong, 1}), zeros({4, 1, 3, 1}), {}, {.groups = 4}).shape(),
            (Shape{0, 4, kLong - 2, 1}));
}

TEST(Conv2d, WorkspaceIsBounded) {
  // Gathered at once this would be 9 * 512 * 512 * 64 floats: 600 MB.
  const Tensor x = zeros({1, 64, 512, 512});
  const Tensor w = zeros({1, 64, 3, 3});
  allocator::trim();
  allocator::reset_peak();
  const std::int64_t before = allocator::stats().bytes_in_use;
  conv2d(x, w);
  EXPECT_LT(allocator::stats().peak_bytes - before, std::int64_t{24} << 20);
  const Tensor dy = zeros({1, 1, 510, 510});
  for (const bool of_input : {false, true}) {
    allocator::trim();
    allocator::reset_peak();
    const std::int64_t start = allocator::stats().bytes_in_use;
    of_input ? conv2d_input_gradient(dy, w, {512, 512}) : conv2d_weight_gradient(x, dy, {3, 3});
    const std::int64_t result = of_input ? 64 * 512 * 512 * 4 : 0;
    EXPECT_LT(allocator::stats().peak_bytes - start, 2 * result + (std::int64_t{24} << 20)) << of_input;
  }
}

}  // namespace
}  // namespace diptych
