// Views: what they show, that they share storage, and that attributes from outside are refused when they make no sense.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/tensor_body.h"
#include "framework/dispatch/apply.h"
#include "framework/graph/ir.h"
#include "tests/ops/reference_array.h"

namespace diptych::testing {
namespace {

using ::testing::HasSubstr;

std::vector<double> elements_of(const Tensor& x) { return x.to_vector<double>(); }

bool share_storage(const Tensor& a, const Tensor& b) { return a.body()->storage.get() == b.body()->storage.get(); }

TEST(View, ShareTheirInputsStorage) {
  const Tensor x = counting({4, 6});
  const auto first = [](const Tensor& t) { return static_cast<const float*>(t.body()->data); };
  for (const Tensor& view :
       {reshape(x, {2, 12}), flatten(x), permute(x, {1, 0}), transpose(x), unsqueeze(x, 1), slice(x, 0, 1, 3),
        slice(x, 1, 0, 6, 4), select(x, 0, -1), split(x, 4, 1)[1], chunk(x, 2)[1], unbind(x, 1)[5],
        expand(unsqueeze(x, 0), {3, 4, 6}), squeeze(unsqueeze(x, 0)), reshape(transpose(x), {2, 3, 4})}) {
    EXPECT_TRUE(share_storage(view, x)) << to_string(view);
  }
  EXPECT_EQ(first(select(x, 0, 2)), first(x) + 12);
  EXPECT_EQ(first(slice(x, 1, 3, 5)), first(x) + 3);
  EXPECT_FALSE(share_storage(flatten(transpose(x)), x)) << "no strides give this order";
}

TEST(View, FlattenMergesARangeOfAxes) {
  const Tensor x = counting({2, 3, 4, 5});
  EXPECT_EQ(flatten(x).shape(), (Shape{120}));
  EXPECT_EQ(flatten(x, 1).shape(), (Shape{2, 60}));
  EXPECT_EQ(flatten(x, 1, 2).shape(), (Shape{2, 12, 5}));
  EXPECT_EQ(flatten(x, -2, -1).shape(), (Shape{2, 3, 20}));
  EXPECT_EQ(flatten(x, 2, 2).shape(), x.shape());
  EXPECT_EQ(flatten(counting({})).shape(), (Shape{1}));
  EXPECT_EQ(flatten(zeros({2, 0, 3}), 1).shape(), (Shape{2, 0}));
  EXPECT_THAT(message_of<ShapeError>([&] { flatten(x, 2, 1); }), HasSubstr("axis 2 comes after axis 1"));
  EXPECT_THAT(message_of<ShapeError>([&] { flatten(x, 4); }), HasSubstr("axis 4"));
}

TEST(View, SqueezeDropsAxesOfLengthOne) {
  EXPECT_EQ(squeeze(zeros({1, 2, 1, 3, 1})).shape(), (Shape{2, 3}));
  EXPECT_EQ(squeeze(zeros({1, 1})).shape(), Shape{});
  EXPECT_EQ(squeeze(zeros({0, 1})).shape(), (Shape{0}));
  EXPECT_EQ(squeeze(zeros({2, 1}), -1).shape(), (Shape{2}));
}

/// Python's x[start:stop:step] on 0, ..., n - 1, with start and stop given: from the language reference.
std::vector<double> python_slice(std::int64_t n, std::int64_t start, std::int64_t stop, std::int64_t step) {
  const auto bound = [&](std::int64_t i) {
    const std::int64_t low = step > 0 ? 0 : -1;
    const std::int64_t high = step > 0 ? n : n - 1;
    return std::min(std::max(i < 0 ? i + n : i, low), high);
  };
  std::vector<double> result;
  const std::int64_t end = bound(stop);
  for (std::int64_t i = bound(start); step > 0 ? i < end : i > end; i += step) {
    result.push_back(static_cast<double>(i));
  }
  return result;
}

TEST(View, SliceFollowsPython) {
  for (const std::int64_t n : {0, 1, 2, 7}) {
    const Tensor x = counting({n});
    for (std::int64_t start = -9; start <= 9; ++start) {
      for (std::int64_t stop = -9; stop <= 9; ++stop) {
        for (const std::int64_t step : {1, 2, 3, 9, -1, -2, -3, -9}) {
          EXPECT_EQ(elements_of(slice(x, 0, start, stop, step)), python_slice(n, start, stop, step))
              << n << ": " << start << " " << stop << " " << step;
        }
      }
    }
  }
  const Tensor x = counting({5});
  EXPECT_EQ(elements_of(slice(x, 0, INT64_MIN, INT64_MAX, INT64_MAX)), (std::vector<double>{0}));
  EXPECT_EQ(elements_of(slice(x, 0, INT64_MAX, INT64_MIN, INT64_MIN)), (std::vector<double>{4}));
  EXPECT_EQ(elements_of(slice(x, 0, -1, INT64_MIN, -2)), (std::vector<double>{4, 2, 0}));
  EXPECT_THAT(message_of<ShapeError>([&] { slice(x, 0, 0, 1, 0); }), HasSubstr("step 0"));
}

TEST(View, SelectTakesOneElementOfAnAxis) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(elements_of(select(x, 0, 1)), (std::vector<double>{3, 4, 5}));
  EXPECT_EQ(elements_of(select(x, -1, -3)), (std::vector<double>{0, 3}));
  EXPECT_THAT(message_of<ShapeError>([&] { select(x, 1, 3); }), HasSubstr("from -3 to 2"));
  EXPECT_THAT(message_of<ShapeError>([&] { select(x, 1, INT64_MIN); }), HasSubstr("out of range"));
  EXPECT_THAT(message_of<ShapeError>([] { select(zeros({0}), 0, 0); }), HasSubstr("empty"));
  EXPECT_THAT(message_of<ShapeError>([] { select(zeros({}), 0, 0); }), HasSubstr("scalar"));
}

TEST(View, SplitChunkAndUnbindCutAnAxis) {
  const Tensor x = counting({2, 7});
  const auto lengths = [](const std::vector<Tensor>& pieces) {
    std::vector<std::int64_t> result;
    for (const Tensor& piece : pieces) {
      result.push_back(piece.shape()[1]);
    }
    return result;
  };
  EXPECT_EQ(lengths(split(x, 3, 1)), (std::vector<std::int64_t>{3, 3, 1}));
  EXPECT_EQ(lengths(split(x, INT64_MAX, 1)), (std::vector<std::int64_t>{7}));
  EXPECT_EQ(lengths(split(x, std::vector<std::int64_t>{2, 0, 5}, 1)), (std::vector<std::int64_t>{2, 0, 5}));
  EXPECT_EQ(elements_of(split(x, std::vector<std::int64_t>{2, 5}, -1)[1]),
            (std::vector<double>{2, 3, 4, 5, 6, 9, 10, 11, 12, 13}));
  // PyTorch: chunk(7, 4) gives 2, 2, 2, 1; chunk(7, 5) gives 2, 2, 2, 1, four pieces.
  EXPECT_EQ(lengths(chunk(x, 4, 1)), (std::vector<std::int64_t>{2, 2, 2, 1}));
  EXPECT_EQ(lengths(chunk(x, 5, 1)), (std::vector<std::int64_t>{2, 2, 2, 1}));
  EXPECT_EQ(chunk(zeros({0, 2}), 3).size(), 1U);
  const std::vector<Tensor> rows = unbind(x);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(elements_of(rows[1]), (std::vector<double>{7, 8, 9, 10, 11, 12, 13}));
  EXPECT_TRUE(unbind(zeros({0, 2})).empty());
  EXPECT_THAT(message_of<ShapeError>([&] { split(x, std::vector<std::int64_t>{3, 3}, 1); }), HasSubstr("add up"));
  EXPECT_THAT(message_of<ShapeError>([&] { split(x, std::vector<std::int64_t>{8, -1}, 1); }), HasSubstr("add up"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                split(x, std::vector<std::int64_t>{INT64_MAX, INT64_MAX, 9}, 1);
              }),
              HasSubstr("add up"));
  EXPECT_THAT(message_of<ShapeError>([&] { split(x, 0, 1); }), HasSubstr("above 0"));
  EXPECT_THAT(message_of<ShapeError>([&] { chunk(x, 0, 1); }), HasSubstr("above 0"));
}

TEST(View, CopiesOfEveryLayoutHaveTheElementsInOrder) {
  // All orders of axes, with lengths that make runs, tiles, and what remains of them.
  const Tensor base = counting({3, 17, 33, 2});
  Axes axes{0, 1, 2, 3};
  std::array<std::int64_t, 4> order{0, 1, 2, 3};
  do {
    for (int i = 0; i < 4; ++i) {
      axes[i] = order[static_cast<std::size_t>(i)];
    }
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::uint8, DType::int32}) {
      const Tensor x = cast(base, dtype);
      const Tensor view = permute(x, axes);
      const ReferenceArray reference(x);
      EXPECT_EQ(elements_of(contiguous(view)), by_index(view.shape(), [&](const Index& index) {
                  Index original(4);
                  for (std::size_t i = 0; i < 4; ++i) {
                    original[static_cast<std::size_t>(order[i])] = index[i];
                  }
                  return reference[original];
                }));
    }
  } while (std::next_permutation(order.begin(), order.end()));
  const Tensor spread = slice(slice(base, 2, 1, 33, 3), 1, 0, 17, 2);
  EXPECT_EQ(elements_of(copy(transpose(spread, 1, 2))), elements_of(transpose(spread, 1, 2)));
  const Tensor repeated = expand(counting({5, 1}), {2, 5, 70});
  EXPECT_EQ(elements_of(copy(repeated)), elements_of(repeated));
}

/// Attributes as a graph's text gives them.
Tensor call_with(const char* name, const Tensor& x, std::initializer_list<std::pair<const char*, const char*>> fields,
                 const Tensor& second = {}) {
  const OpDef& op = *find_op(name);
  AttributeValue attributes(op.attributes, nullptr);
  for (const auto& [field, text] : fields) {
    EXPECT_TRUE(op.attributes->parse_field(attributes.get(), field, text)) << field;
  }
  std::vector<const Tensor*> inputs = {&x};
  if (second.defined()) {
    inputs.push_back(&second);
  }
  return apply(op, inputs, attributes.get(), Location::current());
}

TEST(HostileAttributes, AreShapeErrors) {
  const Tensor x = zeros({2, 3});
  const char* const huge = "9223372036854775807";
  const auto refused = [](auto&& fn) { EXPECT_THROW(fn(), ShapeError); };
  refused([&] { call_with("reshape", x, {{"shape", "[-2,-3]"}}); });
  refused([&] { call_with("reshape", zeros({1}), {{"shape", "[4294967296,4294967296,0]"}}); });
  refused([&] { call_with("reshape", zeros({0}), {{"shape", "[4294967296,4294967296,0]"}}); });
  refused([&] { call_with("expand", zeros({1}), {{"shape", "[-5]"}}); });
  refused([&] { call_with("expand", zeros({1}), {{"shape", "[4294967296,4294967296]"}}); });
  refused([&] { call_with("permute", x, {{"axes", "[0]"}}); });
  refused([&] { call_with("permute", x, {{"axes", "[0,64]"}}); });
  refused([&] { call_with("slice", x, {{"axis", "2"}}); });
  refused([&] { call_with("slice", x, {{"axis", "-1"}}); });
  refused([&] { call_with("slice", x, {{"axis", "1"}, {"stop", "4"}}); });
  refused([&] { call_with("slice", x, {{"axis", "1"}, {"stop", "3"}, {"step", "0"}}); });
  refused([&] { call_with("slice", x, {{"axis", "1"}, {"stop", "3"}, {"step", huge}}); });
  refused([&] { call_with("slice", x, {{"axis", "1"}, {"start", "2"}, {"stop", "1"}}); });
  refused([&] { call_with("slice_backward", x, {{"axis", "1"}, {"length", "2"}}); });
  refused([&] { call_with("slice_backward", x, {{"axis", "1"}, {"length", "-1"}}); });
  refused([&] { call_with("slice_backward", x, {{"axis", "1"}, {"length", huge}}); });
  refused([&] { call_with("slice_backward", x, {{"axis", "1"}, {"length", "9"}, {"start", huge}}); });
  refused([&] { call_with("slice_backward", x, {{"axis", "1"}, {"length", "9"}, {"step", huge}}); });
  refused([&] { call_with("slice_update", x, {{"axis", "1"}, {"stop", "2"}}, zeros({2, 3})); });
  refused([&] { call_with("concat", x, {{"axis", "2"}}, x); });
  refused([&] { call_with("concat", x, {{"axis", "-1"}}, x); });
  refused([&] {
    call_with("concat", expand(zeros({1}), {INT64_MAX / 20}), {{"axis", "0"}}, expand(zeros({1}), {INT64_MAX / 20}));
  });
  refused([&] { call_with("pad", x, {{"before", "[0]"}, {"after", "[0,0]"}}); });
  refused([&] { call_with("pad", x, {{"before", "[0,-1]"}, {"after", "[0,0]"}}); });
  refused([&] { call_with("pad", x, {{"before", "[0,9223372036854775807]"}, {"after", "[0,0]"}}); });
  refused([&] { call_with("flip", x, {{"axes", "[0,0]"}}); });
  refused([&] { call_with("flip", x, {{"axes", "[-1]"}}); });
  refused([&] { call_with("flip", x, {{"axes", "[64]"}}); });
  refused([&] { call_with("tril", zeros({3}), {{"diagonal", "0"}}); });
  EXPECT_THROW(call_with("pad", zeros({2}, DType::uint8), {{"before", "[1]"}, {"after", "[0]"}, {"value", "256"}}),
               DTypeError);
  EXPECT_EQ(elements_of(call_with("tril", ones({2, 2}), {{"diagonal", "-9223372036854775808"}})),
            (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(elements_of(call_with("triu", ones({2, 2}), {{"diagonal", huge}})), (std::vector<double>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace diptych::testing
