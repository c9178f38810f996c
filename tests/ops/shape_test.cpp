// Ops that move elements, against their definitions by index.

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ops/reference_array.h"

namespace diptych::testing {
namespace {

using ::testing::HasSubstr;

std::vector<double> values_of(const Tensor& x) { return x.to_vector<double>(); }

TEST(Concat, PutsTensorsOneAfterTheOther) {
  const Tensor a = counting({2, 3});
  const Tensor b = counting({2, 2}) + 10;
  EXPECT_EQ(values_of(concat({a, b}, 1)), (std::vector<double>{0, 1, 2, 10, 11, 3, 4, 5, 12, 13}));
  EXPECT_EQ(values_of(concat({a, transpose(counting({3, 1}))}, 0)), (std::vector<double>{0, 1, 2, 3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(concat({a, ones({2, 1}, DType::float64)}, -1).dtype(), DType::float64);
  EXPECT_EQ(concat({zeros({0, 3}), zeros({0, 3})}, 0).shape(), (Shape{0, 3}));
  EXPECT_THAT(message_of<ShapeError>([] { concat({}); }), HasSubstr("no tensor"));
  EXPECT_THAT(message_of<ShapeError>([&] { concat({a, b}, 0); }), HasSubstr("all lengths but that of axis 0"));
  EXPECT_THAT(message_of<ShapeError>([&] { concat({a, counting({2})}, 0); }), HasSubstr("don't fit"));
  EXPECT_THAT(message_of<ShapeError>([] { concat({zeros({})}, 0); }), HasSubstr("scalar"));
}

TEST(Concat, TakesAnyNumberOfTensors) {
  for (const int count : {1, 7, 8, 9, 64, 65, 100}) {
    std::vector<Tensor> parts;
    std::vector<double> expected;
    for (int i = 0; i < count; ++i) {
      parts.push_back(full({1 + i % 3}, i));
      expected.insert(expected.end(), static_cast<std::size_t>(1 + i % 3), i);
    }
    EXPECT_EQ(values_of(concat(parts)), expected) << count;
  }
  // The gradient finds its way back through the groups.
  auto f = grad([](const Tensor& x) {
    const std::vector<Tensor> parts = unbind(reshape(x, {20, 1}));
    return sum(mul(concat(parts), counting({20})));
  });
  EXPECT_EQ(values_of(f(zeros({20}))), values_of(counting({20})));
}

TEST(Stack, AddsAnAxis) {
  const Tensor a = counting({2, 3});
  EXPECT_EQ(values_of(stack({a, a + 6}, 1)), (std::vector<double>{0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11}));
  EXPECT_EQ(stack({a, a}, -1).shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(values_of(stack({full({}, 1), full({}, 2)})), (std::vector<double>{1, 2}));
  EXPECT_THAT(message_of<ShapeError>([&] { stack({a, transpose(a)}); }), HasSubstr("shapes differ"));
}

/// Where an index outside [0, n) comes from.
std::int64_t source(PadMode mode, std::int64_t i, std::int64_t n) {
  if (mode == PadMode::reflect) {
    return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
  }
  return std::clamp<std::int64_t>(i, 0, n - 1);
}

TEST(Pad, FollowsTheDefinitionOfEachMode) {
  const Tensor x = counting({4, 3, 5});
  const ReferenceArray reference(x);
  const std::vector<PadWidth> widths = {{2, 1}, {0, 2}, {3, 0}};
  for (const PadMode mode : {PadMode::constant, PadMode::reflect, PadMode::edge}) {
    const Tensor padded = pad(x, widths, mode, -7);
    ASSERT_EQ(padded.shape(), (Shape{7, 5, 8}));
    EXPECT_EQ(values_of(padded), by_index(padded.shape(), [&](const Index& index) {
                Index from(3);
                for (std::size_t axis = 0; axis < 3; ++axis) {
                  const std::int64_t n = x.shape()[static_cast<int>(axis)];
                  const std::int64_t i = index[axis] - widths[axis].before;
                  if (mode == PadMode::constant && (i < 0 || i >= n)) {
                    return -7.0;
                  }
                  from[axis] = source(mode, i, n);
                }
                return reference[from];
              }));
  }
}

TEST(Pad, RefusesWhatHasNoElements) {
  EXPECT_EQ(values_of(pad(zeros({0}), {{1, 1}}, PadMode::constant, 2)), (std::vector<double>{2, 2}));
  EXPECT_THAT(message_of<ShapeError>([] { pad(zeros({3}), {{-1, 0}}); }), HasSubstr("slice()"));
  EXPECT_THAT(message_of<ShapeError>([] { pad(zeros({3}), {}); }), HasSubstr("0 widths"));
  EXPECT_THAT(message_of<ShapeError>([] { pad(zeros({3}), {{3, 0}}, PadMode::reflect); }), HasSubstr("length - 1"));
  EXPECT_THAT(message_of<ShapeError>([] { pad(zeros({0}), {{1, 0}}, PadMode::edge); }), HasSubstr("empty"));
  EXPECT_THAT(message_of<ShapeError>([] { pad(zeros({3}), {{0, -1}}, PadMode::edge); }), HasSubstr("widths"));
  EXPECT_THAT(message_of<DTypeError>([] {
                pad(zeros({3}, DType::int32), {{1, 0}}, PadMode::constant, 3e9);
              }),
              HasSubstr("can't be"));
}

TEST(Pad, GradientOfMirroredElementsAddsUp) {
  auto f = grad([](const Tensor& x) { return sum(mul(pad(x, {{2, 1}}, PadMode::reflect), counting({6}))); });
  // x2 x1 | x0 x1 x2 | x1 with weights 0 to 5.
  EXPECT_EQ(values_of(f(zeros({3}))), (std::vector<double>{2, 1 + 3 + 5, 0 + 4}));
  auto g = grad([](const Tensor& x) { return sum(mul(pad(x, {{2, 1}}, PadMode::edge), counting({6}))); });
  EXPECT_EQ(values_of(g(zeros({3}))), (std::vector<double>{0 + 1 + 2, 3, 4 + 5}));
}

TEST(Tile, RepeatsWholeAxes) {
  const Tensor x = counting({2, 3});
  const ReferenceArray reference(x);
  const Tensor tiled = tile(x, {2, 1, 3});
  ASSERT_EQ(tiled.shape(), (Shape{2, 2, 9}));
  EXPECT_EQ(values_of(tiled), by_index(tiled.shape(), [&](const Index& i) { return reference[{i[1], i[2] % 3}]; }));
  EXPECT_EQ(values_of(tile(x, {2})), (std::vector<double>{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
  EXPECT_EQ(tile(x, {0, 1}).shape(), (Shape{0, 3}));
  EXPECT_EQ(tile(zeros({1, 1, 1, 1, 1, 1, 1, 1}), {2, 2, 2, 2, 2, 2, 2, 2}).numel(), 256);
  EXPECT_THAT(message_of<ShapeError>([&] { tile(x, {-1, 1}); }), HasSubstr("-1 repeats"));
  EXPECT_THROW(tile(x, {INT64_MAX, 1}), ShapeError);
}

TEST(FlipAndRoll, MoveElementsWithinAxes) {
  const Tensor x = transpose(counting({5, 3}));
  const ReferenceArray reference(x);
  EXPECT_EQ(values_of(flip(x, {0, -1})), by_index(x.shape(), [&](const Index& i) {
              return reference[{2 - i[0], 4 - i[1]}];
            }));
  for (const std::int64_t shift : {0, 1, -1, 5, 7, -12}) {
    EXPECT_EQ(values_of(roll(x, {1, shift}, {0, 1})), by_index(x.shape(), [&](const Index& i) {
                return reference[{(i[0] + 2) % 3, ((i[1] - shift) % 5 + 5) % 5}];
              }));
  }
  EXPECT_EQ(roll(zeros({0, 2}), {3}, {0}).shape(), (Shape{0, 2}));
  EXPECT_EQ(values_of(roll(counting({3}), {INT64_MIN}, {0})).size(), 3U);
  EXPECT_THAT(message_of<ShapeError>([&] { roll(x, {1, 2}, {0}); }), HasSubstr("2 shifts for 1 axes"));
  EXPECT_THAT(message_of<ShapeError>([&] { flip(x, {2}); }), HasSubstr("axis 2"));
  EXPECT_THROW(flip(x, {1, -1}), ShapeError);
}

TEST(SliceUpdate, WritesIntoACopy) {
  const Tensor x = counting({2, 4});
  EXPECT_EQ(values_of(slice_update(x, full({2, 2}, -1), 1, 1, 4, 2)),
            (std::vector<double>{0, -1, 2, -1, 4, -1, 6, -1}));
  EXPECT_EQ(values_of(slice_update(x, full({}, 9, DType::float64), 0, -1, 2)),
            (std::vector<double>{0, 1, 2, 3, 9, 9, 9, 9}));
  EXPECT_EQ(slice_update(x, full({}, 9, DType::float64), 0, 0, 1).dtype(), DType::float32);
  EXPECT_EQ(values_of(x), values_of(counting({2, 4})));
  EXPECT_EQ(values_of(slice_update(x, zeros({2, 0}), 1, 2, 2)), values_of(x));
  EXPECT_THROW(slice_update(x, zeros({3}), 1, 0, 2), ShapeError);
  EXPECT_THAT(message_of<ShapeError>([&] { slice_update(x, zeros({2, 4}), 1, 3, 0, -1); }), HasSubstr("not positive"));
}

TEST(Triangles, KeepOneSideOfADiagonal) {
  const Tensor x = counting({2, 3, 4}) + 1;
  const ReferenceArray reference(x);
  for (std::int64_t k = -5; k <= 5; ++k) {
    EXPECT_EQ(values_of(tril(x, k)),
              by_index(x.shape(), [&](const Index& i) { return i[2] <= i[1] + k ? reference[i] : 0; }));
    EXPECT_EQ(values_of(triu(x, k)),
              by_index(x.shape(), [&](const Index& i) { return i[2] >= i[1] + k ? reference[i] : 0; }));
  }
  EXPECT_EQ(values_of(tril(ones({2, 2}, DType::boolean))), (std::vector<double>{1, 0, 1, 1}));
}

TEST(SliceGradient, LeavesZerosAround) {
  auto f = grad([](const Tensor& x) { return sum(mul(slice(x, 1, 3, -9, -2), Tensor::from({5.0F, 7.0F}, {2}))); });
  EXPECT_EQ(values_of(f(zeros({2, 4}))), (std::vector<double>{0, 7, 0, 5, 0, 7, 0, 5}));
}

}  // namespace
}  // namespace diptych::testing
