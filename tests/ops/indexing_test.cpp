// Indexing against plain loops over coordinates: duplicates, every rank, nothing at all, and indices that are wrong.

#include "framework/ops/normalise_indices.h"
#include "tests/ops/reference.h"

namespace diptych::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::size_t offset_of(const Shape& shape, const std::vector<std::int64_t>& at) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    offset = offset * shape[axis] + at[static_cast<std::size_t>(axis)];
  }
  return static_cast<std::size_t>(offset);
}

Tensor random_indices(Rng& rng, const Shape& shape, std::int64_t length) { return rng.integers(shape, 0, length); }

struct Setting {
  Shape x, index;
  int axis;
};
const std::vector<Setting>& settings() {
  static const std::vector<Setting> all{
      {{5}, {8}, 0},
      {{4, 6}, {9, 6}, 0},
      {{4, 6}, {2, 3}, 0},
      {{4, 6}, {4, 11}, 1},
      {{4, 6}, {3, 2}, 1},
      {{2, 3, 4}, {2, 7, 4}, 1},
      {{2, 3, 4}, {1, 2, 3}, 2},
      {{2, 3, 4}, {5, 1, 4}, 0},
      {{3, 1}, {3, 0}, 1},
      {{2, 2, 2, 2}, {2, 1, 2, 5}, 3},
  };
  return all;
}

TEST(Gather, FollowsItsDefinition) {
  Rng rng(51);
  for (const Setting& s : settings()) {
    const Tensor x = rng.normal(s.x, 0, 1, DType::float64);
    const Tensor index = random_indices(rng, s.index, s.x[s.axis]);
    const auto in = doubles(x);
    const auto at = ints(index);
    const auto out = doubles(gather(x, s.axis, index));
    ASSERT_EQ(out.size(), at.size());
    for (std::size_t i = 0; i < at.size(); ++i) {
      auto place = coordinates(s.index, static_cast<std::int64_t>(i));
      place[static_cast<std::size_t>(s.axis)] = at[i];
      ASSERT_EQ(out[i], in[offset_of(s.x, place)]) << to_string(s.x) << to_string(s.index);
    }
    EXPECT_EQ(doubles(gather(x, s.axis - s.x.rank(), index)), out);
    EXPECT_EQ(doubles(gather(x, s.axis, cast(index, DType::int32))), out);
  }
}

TEST(Scatter, LastOfSeveralWinsAndAddAddsAll) {
  Rng rng(52);
  for (const Setting& s : settings()) {
    const Tensor x = rng.normal(s.x, 0, 1, DType::float64);
    const Tensor index = random_indices(rng, s.index, s.x[s.axis]);
    const Tensor source = rng.normal(s.index, 0, 1, DType::float64);
    const auto at = ints(index);
    const auto added = doubles(source);
    auto replaced = doubles(x);
    auto summed = doubles(x);
    for (std::size_t i = 0; i < at.size(); ++i) {
      auto place = coordinates(s.index, static_cast<std::int64_t>(i));
      place[static_cast<std::size_t>(s.axis)] = at[i];
      replaced[offset_of(s.x, place)] = added[i];
      summed[offset_of(s.x, place)] += added[i];
    }
    EXPECT_EQ(doubles(scatter(x, s.axis, index, source)), replaced) << to_string(s.x) << to_string(s.index);
    EXPECT_EQ(doubles(scatter_add(x, s.axis, index, source)), summed) << to_string(s.x) << to_string(s.index);
  }
}

TEST(Scatter, CombinesAllThatMeet) {
  Rng rng(54);
  for (const Setting& s : settings()) {
    const Tensor x = rng.normal(s.x, 0, 1, DType::float64);
    const Tensor index = random_indices(rng, s.index, s.x[s.axis]);
    const Tensor source = rng.normal(s.index, 0, 1, DType::float64);
    const auto at = ints(index);
    const auto given = doubles(source);
    auto product = doubles(x);
    auto greatest = product;
    auto least = product;
    for (std::size_t i = 0; i < at.size(); ++i) {
      auto place = coordinates(s.index, static_cast<std::int64_t>(i));
      place[static_cast<std::size_t>(s.axis)] = at[i];
      const std::size_t offset = offset_of(s.x, place);
      product[offset] *= given[i];
      greatest[offset] = std::max(greatest[offset], given[i]);
      least[offset] = std::min(least[offset], given[i]);
    }
    EXPECT_EQ(doubles(scatter_mul(x, s.axis, index, source)), product) << to_string(s.x) << to_string(s.index);
    EXPECT_EQ(doubles(scatter_max(x, s.axis, index, source)), greatest) << to_string(s.x) << to_string(s.index);
    EXPECT_EQ(doubles(scatter_min(x, s.axis, index, source)), least) << to_string(s.x) << to_string(s.index);
  }
}

TEST(Scatter, GradientGoesToTheEntryThatStayed) {
  const Tensor x = f64({10, 20, 30}, {3});
  const Tensor index = i64({1, 2, 1}, {3});
  const Tensor weights = f64({1, 2, 3}, {3});
  auto f = grad([&](const Tensor& a, const Tensor& b) { return sum(scatter(a, 0, index, b) * weights); },
                std::vector<int>{0, 1});
  const std::vector<Tensor> gradients = f(x, f64({5, 6, 7}, {3}));
  EXPECT_THAT(doubles(gradients[0]), ElementsAre(1, 0, 0));
  EXPECT_THAT(doubles(gradients[1]), ElementsAre(0, 3, 2));
}

TEST(IndexSelect, TakesSlicesOfEveryWidth) {
  Rng rng(53);
  for (const Shape& shape : {Shape{7}, Shape{7, 3}, Shape{2, 7}, Shape{2, 7, 5}, Shape{7, 1}, Shape{7, 2, 2}}) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] != 7) {
        continue;
      }
      const Tensor x = rng.normal(shape, 0, 1, DType::float64);
      for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::uint8}) {
        const Tensor typed = cast(x, dtype);
        const auto rows = doubles(index_select(typed, axis, i64({6, 0, 0, 3}, {4})));
        std::vector<Tensor> slices;
        std::size_t i = 0;
        const Shape selected = index_select(typed, axis, i64({6, 0, 0, 3}, {4})).shape();
        const auto in = doubles(typed);
        for (const double value : rows) {
          auto place = coordinates(selected, static_cast<std::int64_t>(i++));
          place[static_cast<std::size_t>(axis)] =
              std::array<std::int64_t, 4>{6, 0, 0, 3}[static_cast<std::size_t>(place[static_cast<std::size_t>(axis)])];
          ASSERT_EQ(value, in[offset_of(shape, place)]);
        }
      }
    }
  }
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {3, 2});
  EXPECT_EQ(index_select(x, 0, i64({2, 1, 0, 2}, {2, 2})).shape(), (Shape{2, 2, 2}));
  EXPECT_THAT(doubles(index_select(x, 0, i64({2}, {}))), ElementsAre(5, 6));
  EXPECT_EQ(index_select(x, 1, i64({}, {0})).shape(), (Shape{3, 0}));
  EXPECT_THAT(doubles(index_select(transpose(x), 0, i64({1}, {1}))), ElementsAre(2, 4, 6));
}

TEST(IndexAdd, AddsEverySliceInOrder) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor source = f64({10, 20, 30, 40, 50, 60}, {3, 2});
  EXPECT_THAT(doubles(index_add(x, 0, i64({2, 0, 2}, {3}), source)), ElementsAre(31, 42, 3, 4, 65, 86));
  EXPECT_THAT(doubles(index_add(x, -1, i64({0, 0}, {2}), source)), ElementsAre(31, 2, 73, 4, 115, 6));
  // 1e16 + 1 rounds down: the order shows.
  const Tensor large = f64({1e16, 1, -1e16, 1}, {4});
  EXPECT_EQ(doubles(index_add(zeros({1}, DType::float64), 0, i64({0, 0, 0, 0}, {4}), large)), std::vector<double>{1});
  const Tensor wrapped =
      index_add(cast(full({1}, 200), DType::uint8), 0, i64({0}, {1}), cast(full({1}, 100), DType::uint8));
  EXPECT_EQ(wrapped.item(), 44);
}

TEST(Embedding, LooksRowsUpAndSumsTheirGradients) {
  const Tensor weight = f64({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor indices = i64({2, 0, 2, 2}, {2, 2});
  EXPECT_THAT(doubles(embedding(indices, weight)), ElementsAre(5, 6, 1, 2, 5, 6, 5, 6));
  EXPECT_EQ(embedding(indices, weight).shape(), (Shape{2, 2, 2}));
  auto f = grad([&](const Tensor& w) { return sum(embedding(indices, w) * f64({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2})); });
  EXPECT_THAT(doubles(f(weight)), ElementsAre(3, 4, 0, 0, 13, 16));
  EXPECT_EQ(embedding(i64({}, {0}), weight).shape(), (Shape{0, 2}));
}

TEST(MaskedFill, Broadcasts) {
  const Tensor mask = Tensor::from({false, true, false}, {3});
  EXPECT_THAT(doubles(masked_fill(f64({1, 2, 3, 4, 5, 6}, {2, 3}), mask, -kInf)),
              ElementsAre(1, -kInf, 3, 4, -kInf, 6));
  EXPECT_EQ(masked_fill(zeros({2}, DType::bfloat16), Tensor::from({true, true}, {2}), 1).dtype(), DType::bfloat16);
}

TEST(OneHot, HasOneOneARow) {
  EXPECT_THAT(doubles(one_hot(i64({1, 0}, {2}), 3)), ElementsAre(0, 1, 0, 1, 0, 0));
  EXPECT_EQ(one_hot(Tensor::from({1, 0}, {2, 1}), 3, DType::boolean).shape(), (Shape{2, 1, 3}));
}

TEST(Indices, OutOfRangeAreNamedWithTheirPosition) {
  const Tensor x = zeros({4, 3});
  const auto expect_error = [](const std::function<void()>& f, const char* op, const char* index, const char* end) {
    EXPECT_THAT(message_of<Error>(f), AllOf(HasSubstr(op), HasSubstr(index), HasSubstr(end)));
  };
  expect_error([&] { gather(x, 0, i64({0, 1, 2, 3, 4, 0}, {2, 3})); }, "gather", "index 4 at position 4", "[0, 4)");
  expect_error([&] { gather(x, 1, i64({0, -1}, {2, 1})); }, "gather", "index -1 at position 1", "negative indices");
  expect_error([&] { scatter(x, 1, i64({3}, {1, 1}), zeros({1, 1})); }, "scatter", "index 3 at position 0", "[0, 3)");
  expect_error([&] { scatter_add(x, 1, i64({3}, {1, 1}), zeros({1, 1})); }, "scatter_add", "index 3", "[0, 3)");
  expect_error([&] { index_select(x, 0, i64({0, 4}, {2})); }, "index_select", "index 4 at position 1", "[0, 4)");
  expect_error([&] { index_add(x, 0, i64({-3}, {1}), zeros({1, 3})); }, "index_add", "index -3", "negative indices");
  expect_error([&] { embedding(i64({9}, {1}), x); }, "embedding", "index 9 at position 0", "[0, 4)");
  expect_error([&] { one_hot(i64({std::numeric_limits<std::int64_t>::min()}, {1}), 4); }, "one_hot",
               "-9223372036854775808", "[0, 4)");
  expect_error([&] { index_select(zeros({0, 3}), 0, i64({0}, {1})); }, "index_select", "index 0", "[0, 0)");
}

TEST(Indices, ThatCountFromTheEndAreNormalised) {
  EXPECT_THAT(doubles(normalise_indices(i64({-5, 4, 0, -1}, {4}), {5})), ElementsAre(0, 4, 0, 4));
  EXPECT_THAT(doubles(normalise_indices(i64({-2, -3, 1, 2}, {2, 2}), {2, 3})), ElementsAre(0, 0, 1, 2));
  const auto said = [](const Tensor& indices, const Dims& lengths, bool from_end) {
    return message_of<Error>([&] { normalise_indices(indices, lengths, from_end); });
  };
  EXPECT_THAT(said(i64({0, 0, 0, -4}, {2, 2}), {2, 3}, true), HasSubstr("index -4 at position 3 is outside [-3, 3)"));
  EXPECT_THAT(said(i64({-1}, {1}), {3}, false), HasSubstr("index -1 at position 0 is outside [0, 3)"));
  EXPECT_THAT(said(i64({0, 0, 0}, {3}), {2, 3}, true), HasSubstr("2 lengths"));
  EXPECT_THAT(said(i64({0}, {1}), {-2}, true), HasSubstr("length -2"));
}

TEST(Indices, WrongShapesAndTypesAreRefused) {
  const Tensor x = zeros({4, 3});
  const Tensor index = i64({0}, {1});
  EXPECT_THAT(message_of<ShapeError>([&] { gather(x, 0, index); }), HasSubstr("as many axes"));
  EXPECT_THAT(message_of<ShapeError>([&] { gather(x, 0, i64({0, 0, 0, 0}, {1, 4})); }), HasSubstr("along the axis"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                scatter(x, 0, i64({0}, {1, 1}), zeros({1, 2}));
              }),
              HasSubstr("shape of the index"));
  EXPECT_THAT(message_of<ShapeError>([&] { index_add(x, 0, index, zeros({2, 3})); }), HasSubstr("source"));
  EXPECT_THAT(message_of<ShapeError>([&] { embedding(index, full({}, 1)); }), HasSubstr("no rows"));
  EXPECT_THAT(message_of<ShapeError>([&] { gather(full({}, 1), 0, index); }), HasSubstr("gather"));
  EXPECT_THAT(message_of<ShapeError>([&] { one_hot(index, 0); }), HasSubstr("depth"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                index_select(x, 0, zeros({1, 1, 1, 1, 1, 1, 1, 1}, DType::int64));
              }),
              HasSubstr("8 axes"));
  EXPECT_THAT(message_of<DTypeError>([&] { gather(x, 0, zeros({1, 1})); }), HasSubstr("not i64"));
  EXPECT_THAT(message_of<DTypeError>([&] { embedding(Tensor::from({true}, {1}), x); }), HasSubstr("not i64"));
  EXPECT_THAT(message_of<DTypeError>([&] {
                scatter_add(cast(x, DType::boolean), 0, i64({0}, {1, 1}), cast(zeros({1, 1}), DType::boolean));
              }),
              HasSubstr("bool"));
}

TEST(Indices, WorkInGraphsToo) {
  const Tensor x = f64({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor index = i64({2, 0}, {2});
  auto f = jit([](const Tensor& table, const Tensor& at) { return sum(index_select(table, 0, at), {1}); });
  EXPECT_THAT(doubles(f(x, index)), ElementsAre(11, 3));
  EXPECT_THAT(message_of<Error>([&] { f(x, i64({2, 3}, {2})); }), HasSubstr("index 3 at position 1"));
  EXPECT_THAT(doubles(f(x, index)), ElementsAre(11, 3));
}

}  // namespace
}  // namespace diptych::testing
