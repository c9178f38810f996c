// Windows that stand out of their input, and results longer than the windows reach: against sums over every element, as
// the specification's formulas have them.

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/onnx/one_node.h"

namespace diptych::onnx {
namespace {

using diptych::testing::Attributes;
using diptych::testing::doubles;
using diptych::testing::error_of;
using diptych::testing::expect_gradients;
using diptych::testing::IsNear;
using diptych::testing::number;
using diptych::testing::of_one;
using diptych::testing::random;
using diptych::testing::run;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using List = std::vector<std::int64_t>;

struct Window {
  std::int64_t length, kernel, stride, dilation, before, after;
  bool ceil_mode;

  std::string text() const {
    return fmt::format("{} elements, kernel {}, stride {}, dilation {}, pads {} {}{}", length, kernel, stride, dilation,
                       before, after, ceil_mode ? ", ceil" : "");
  }
  Attributes attributes() const {
    return {{"kernel_shape", List{kernel}},
            {"strides", List{stride}},
            {"dilations", List{dilation}},
            {"pads", List{before, after}},
            {"ceil_mode", number(ceil_mode ? 1 : 0)}};
  }
  /// output = round((length + pads - ((kernel - 1) * dilation + 1)) / stride + 1), without a window that starts in the
  /// padding behind.
  std::int64_t outputs() const {
    const double room = static_cast<double>(length + before + after - (kernel - 1) * dilation - 1);
    const double count = room / static_cast<double>(stride) + 1;
    const auto result = static_cast<std::int64_t>(ceil_mode ? std::ceil(count) : std::floor(count));
    return ceil_mode && (result - 1) * stride >= length + before ? result - 1 : result;
  }
  /// The elements of window o.
  List taken(std::int64_t o) const {
    List places;
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t at = o * stride + k * dilation - before;
      if (at >= 0 && at < length) {
        places.push_back(at);
      }
    }
    return places;
  }
};

TEST(WindowLimits, OfPoolsThatStandOutOfTheirInput) {
  int wider = 0;
  for (const std::int64_t length : {2, 3, 4}) {
    for (const std::int64_t kernel : {2, 3}) {
      for (const std::int64_t stride : {1, 2, 3, 5}) {
        for (const std::int64_t dilation : {1, 2, 3}) {
          for (const auto& [before, after] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {1, 0}, {0, 1}}) {
            const Window w{length, kernel, stride, dilation, before, after, true};
            SCOPED_TRACE(w.text());
            const Tensor x = random(static_cast<std::uint64_t>(length), {1, 2, length});
            bool is_empty = false;  // a window of padding alone
            for (std::int64_t o = 0; o < w.outputs(); ++o) {
              is_empty = is_empty || w.taken(o).empty();
            }
            if (is_empty) {
              continue;
            }
            if (w.outputs() < 1) {
              EXPECT_THAT(error_of([&] { run("MaxPool", {x}, w.attributes()); }), HasSubstr("the kernel reaches over"));
              continue;
            }
            wider += (kernel - 1) * dilation + 1 > length + before + after ? 1 : 0;
            std::vector<double> largest;
            std::vector<double> places;
            std::vector<double> means;
            std::vector<double> norms;
            for (std::int64_t line = 0; line < 2; ++line) {
              for (std::int64_t o = 0; o < w.outputs(); ++o) {
                double best = -std::numeric_limits<double>::infinity();
                double place = 0;
                double total = 0;
                double squares = 0;
                for (const std::int64_t at : w.taken(o)) {
                  const double value = doubles(x)[static_cast<std::size_t>(line * length + at)];
                  place = value > best ? static_cast<double>(line * length + at) : place;
                  best = std::max(best, value);
                  total += value;
                  squares += value * value;
                }
                largest.push_back(best);
                places.push_back(place);
                means.push_back(total / static_cast<double>(w.taken(o).size()));
                norms.push_back(std::sqrt(squares));
              }
            }
            const std::vector<Tensor> found = run("MaxPool", {x}, w.attributes(), 2);
            EXPECT_EQ(doubles(found[0]), largest);
            EXPECT_EQ(doubles(found[1]), places);
            EXPECT_THAT(doubles(run("AveragePool", {x}, w.attributes())[0]), Pointwise(IsNear(1e-14), means));
            EXPECT_THAT(doubles(run("LpPool", {x}, w.attributes())[0]), Pointwise(IsNear(1e-14), norms));
          }
        }
      }
    }
  }
  EXPECT_GT(wider, 20);
  const Attributes wide{
      {"kernel_shape", List{3}}, {"strides", List{3}}, {"dilations", List{2}}, {"ceil_mode", number(1)}};
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
    expect_gradients(op, {random(7, {1, 2, 4})}, wide);
    expect_gradients(op, {random(8, {1, 1, 2, 2})},
                     {{"kernel_shape", List{3, 3}}, {"strides", List{2, 3}}, {"ceil_mode", number(1)}});
  }
}

/// y[s * i + d * k - before] += x[i] * w[k]
struct Spread {
  std::int64_t stride, dilation, extra, before, after;
};

TEST(WindowLimits, OfTransposedConvolutionsWithLongOutputPadding) {
  const std::int64_t n = 3;
  for (const std::int64_t kernel : {1, 2, 3}) {
    for (const Spread& s :
         {Spread{1, 2, 1, 0, 0}, Spread{1, 4, 3, 0, 0}, Spread{2, 4, 2, 1, 0}, Spread{2, 4, 3, 1, 2},
          Spread{3, 5, 4, 2, 1}, Spread{3, 4, 3, 0, 1}, Spread{2, 3, 1, 1, 1}, Spread{1, 6, 5, 3, 1}}) {
      const std::int64_t length = s.stride * (n - 1) + s.extra + (kernel - 1) * s.dilation + 1 - s.before - s.after;
      SCOPED_TRACE(fmt::format("kernel {}, stride {}, dilation {}, output_padding {}, pads {} {}", kernel, s.stride,
                               s.dilation, s.extra, s.before, s.after));
      const Tensor x = random(1, {1, 1, n});
      const Tensor w = random(2, {1, 1, kernel});
      const Tensor bias = random(3, {1});
      const Attributes attributes{{"strides", List{s.stride}},
                                  {"dilations", List{s.dilation}},
                                  {"output_padding", List{s.extra}},
                                  {"pads", List{s.before, s.after}}};
      if (length < 1) {
        continue;
      }
      std::vector<double> wanted(static_cast<std::size_t>(length), bias.to_vector<double>()[0]);
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t k = 0; k < kernel; ++k) {
          const std::int64_t at = s.stride * i + s.dilation * k - s.before;
          if (at >= 0 && at < length) {
            wanted[static_cast<std::size_t>(at)] +=
                doubles(x)[static_cast<std::size_t>(i)] * doubles(w)[static_cast<std::size_t>(k)];
          }
        }
      }
      EXPECT_THAT(doubles(run("ConvTranspose", {x, w, bias}, attributes)[0]), Pointwise(IsNear(1e-14), wanted));
      // The same along rows of planes and volumes.
      for (const int others : {1, 2}) {
        Shape wide_x{1, 1, n};
        Shape wide_w{1, 1, kernel};
        Attributes wide = attributes;
        for (const char* name : {"strides", "dilations"}) {
          std::get<List>(wide[name]).resize(static_cast<std::size_t>(1 + others), 1);
        }
        std::get<List>(wide["output_padding"]).resize(static_cast<std::size_t>(1 + others), 0);
        List pads(static_cast<std::size_t>(2 + 2 * others), 0);
        pads[0] = s.before;
        pads[static_cast<std::size_t>(1 + others)] = s.after;
        wide["pads"] = pads;
        for (int i = 0; i < others; ++i) {
          wide_x.push_back(1);
          wide_w.push_back(1);
        }
        const Tensor y = run("ConvTranspose", {reshape(x, wide_x), reshape(w, wide_w), bias}, wide)[0];
        EXPECT_THAT(doubles(y), Pointwise(IsNear(1e-14), wanted)) << others << " more axes";
      }
    }
  }
  // An output_shape beyond what the windows reach ends in zeros, and cut before that it is as long as it says.
  const Tensor x = Tensor::from({1.0, 2.0}, {1, 1, 2});
  const Tensor one = Tensor::from({1.0}, {1, 1, 1});
  EXPECT_THAT(doubles(run("ConvTranspose", {x, one}, {{"output_shape", List{5}}})[0]), ElementsAre(1, 2, 0, 0, 0));
  expect_gradients("ConvTranspose", {random(4, {2, 2, 2, 2}), random(5, {2, 2, 2, 2}), random(6, {4})},
                   {{"group", number(2)},
                    {"strides", List{3, 2}},
                    {"dilations", List{4, 4}},
                    {"output_padding", List{2, 3}},
                    {"pads", List{1, 2, 1, 2}}});
}

/// The cubic kernel with a = -0.75 at a distance.
double cubic(double d) {
  constexpr double a = -0.75;
  d = std::fabs(d);
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// As PyTorch's grid_sample (and ONNX Runtime) have it: each of the 4 x 4 neighbours is the nearest element of the
// image.
TEST(WindowLimits, OfCubicSamplesAreThoseOfEachNeighbour) {
  const std::int64_t rows = 3;
  const std::int64_t columns = 4;
  const Tensor image = random(1, {1, 1, rows, columns});
  std::vector<double> grid;
  for (const double x : {-9.0, -1.9, -1.3, -1.05, -0.99, -0.4, 0.2, 0.96, 1.02, 1.4, 2.3, 40.0}) {
    for (const double y : {-3.0, -1.2, -1.01, -0.3, 0.99, 1.03, 1.6, 1e6}) {
      grid.push_back(x);
      grid.push_back(y);
    }
  }
  const std::int64_t places = static_cast<std::int64_t>(grid.size()) / 2;
  for (const std::int64_t aligned : {0, 1}) {
    std::vector<double> wanted;
    for (std::int64_t i = 0; i < places; ++i) {
      const auto place = [&](double along, std::int64_t length) {
        const auto n = static_cast<double>(length);
        return aligned != 0 ? (along + 1) / 2 * (n - 1) : ((along + 1) * n - 1) / 2;
      };
      const double x = place(grid[static_cast<std::size_t>(2 * i)], columns);
      const double y = place(grid[static_cast<std::size_t>(2 * i + 1)], rows);
      double total = 0;
      for (int r = -1; r <= 2; ++r) {
        for (int c = -1; c <= 2; ++c) {
          const double at_row = std::floor(y) + r;
          const double at_column = std::floor(x) + c;
          const auto row = static_cast<std::int64_t>(std::min(std::max(at_row, 0.0), static_cast<double>(rows - 1)));
          const auto column =
              static_cast<std::int64_t>(std::min(std::max(at_column, 0.0), static_cast<double>(columns - 1)));
          total += cubic(y - at_row) * cubic(x - at_column) *
                   doubles(image)[static_cast<std::size_t>(row * columns + column)];
        }
      }
      wanted.push_back(total);
    }
    const Attributes attributes{{"mode", AttributeValue(std::string("cubic"))},
                                {"padding_mode", AttributeValue(std::string("border"))},
                                {"align_corners", number(aligned)}};
    EXPECT_THAT(doubles(run("GridSample", {image, Tensor::from(grid, {1, 1, places, 2})}, attributes)[0]),
                Pointwise(IsNear(1e-9), wanted));
    // By the grid, just outside of the image and further.
    const Tensor near = Tensor::from({-1.3, -0.2, 1.05, 1.2, -1.05, 1.4, 0.3, -1.2, 3.0, 0.1}, {1, 1, 5, 2});
    expect_gradients("GridSample", {image, near}, attributes);
  }
}

}  // namespace
}  // namespace diptych::onnx
