// Attention against its formula in double, and masked softmax against the ops that it joins, bit by bit.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/dispatch/apply.h"
#include "framework/ops/row_ops.h"
#include "tests/ops/reference_array.h"
#include "tests/support/with_threads.h"

namespace diptych::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr double kMasked = std::numeric_limits<double>::infinity();

/// softmax(scale q k^T + mask) v of one head, by its definition; mask(i, j) is added.
template <class Mask>
std::vector<double> attention(const ReferenceArray& q, const ReferenceArray& k, const ReferenceArray& v, double scale,
                              const Mask& mask) {
  const std::int64_t length = q.shape[0];
  const std::int64_t keys = k.shape[0];
  std::vector<double> result;
  for (std::int64_t i = 0; i < length; ++i) {
    std::vector<double> weights;
    double total = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      double score = 0;
      for (std::int64_t e = 0; e < q.shape[1]; ++e) {
        score += q[{i, e}] * k[{j, e}];
      }
      weights.push_back(std::exp(score * scale + mask(i, j)));
      total += weights.back();
    }
    for (std::int64_t f = 0; f < v.shape[1]; ++f) {
      double sum = 0;
      for (std::int64_t j = 0; j < keys; ++j) {
        sum += weights[static_cast<std::size_t>(j)] / total * v[{j, f}];
      }
      result.push_back(sum);
    }
  }
  return result;
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], tolerance) << i;
  }
}

Tensor random_normal(const Shape& shape, std::uint64_t seed, DType dtype = DType::float64) {
  return Rng(seed).normal(shape, 0, 1, dtype);
}

TEST(Attention, FollowsTheFormula) {
  const Tensor q = random_normal({5, 4}, 1);
  const Tensor k = random_normal({7, 4}, 2);
  const Tensor v = random_normal({7, 3}, 3);
  const ReferenceArray a(q);
  const ReferenceArray b(k);
  const ReferenceArray c(v);
  const auto none = [](std::int64_t, std::int64_t) { return 0.0; };
  expect_near(scaled_dot_product_attention(q, k, v).to_vector<double>(), attention(a, b, c, 0.5, none), 1e-13);
  expect_near(scaled_dot_product_attention(q, k, v, {.scale = -2}).to_vector<double>(), attention(a, b, c, -2, none),
              1e-13);
  expect_near(scaled_dot_product_attention(q, k, v, {.is_causal = true}).to_vector<double>(),
              attention(a, b, c, 0.5, [](std::int64_t i, std::int64_t j) { return j <= i ? 0 : -kMasked; }), 1e-13);
  const Tensor bias = random_normal({5, 7}, 4);
  const ReferenceArray d(bias);
  expect_near(scaled_dot_product_attention(q, k, v, {.mask = bias}).to_vector<double>(),
              attention(a, b, c, 0.5,
                        [&](std::int64_t i, std::int64_t j) {
                          return d[{i, j}];
                        }),
              1e-13);
  expect_near(
      scaled_dot_product_attention(q, k, v, {.mask = greater(bias, zeros({}, DType::float64)), .is_causal = false})
          .to_vector<double>(),
      attention(a, b, c, 0.5,
                [&](std::int64_t i, std::int64_t j) {
                  return d[{i, j}] > 0 ? 0 : -kMasked;
                }),
      1e-13);
}

TEST(Attention, HeadsAndBatchesAreIndependent) {
  const Tensor q = random_normal({2, 3, 5, 4}, 1, DType::float32);
  const Tensor k = random_normal({2, 1, 6, 4}, 2, DType::float32);  // keys and values shared by the heads
  const Tensor v = random_normal({2, 1, 6, 4}, 3, DType::float32);
  const Tensor result = scaled_dot_product_attention(q, k, v);
  ASSERT_EQ(result.shape(), (Shape{2, 3, 5, 4}));
  for (int batch = 0; batch < 2; ++batch) {
    for (int head = 0; head < 3; ++head) {
      const Tensor one = scaled_dot_product_attention(select(select(q, 0, batch), 0, head),
                                                      squeeze(select(k, 0, batch)), squeeze(select(v, 0, batch)));
      expect_near(select(select(result, 0, batch), 0, head).to_vector<double>(), one.to_vector<double>(), 1e-6);
    }
  }
}

TEST(Attention, ARowThatMayAttendToNothingIsZero) {
  const Tensor q = random_normal({2, 4}, 1);
  const Tensor mask = Tensor::from(std::vector<bool>{true, false, false, false}, {2, 2});
  const std::vector<double> result = scaled_dot_product_attention(q, q, q, {.mask = mask}).to_vector<double>();
  expect_near({result.begin(), result.begin() + 4}, select(q, 0, 0).to_vector<double>(), 1e-13);
  EXPECT_EQ(std::vector<double>(result.begin() + 4, result.end()), std::vector<double>(4, 0));
  const auto loss = [&](const Tensor& x) { return sum(scaled_dot_product_attention(x, q, q, {.mask = mask})); };
  const std::vector<double> gradient = grad(loss)(q).to_vector<double>();
  EXPECT_EQ(std::vector<double>(gradient.begin() + 4, gradient.end()), std::vector<double>(4, 0));
}

TEST(Attention, EmptyAxesAndErrors) {
  EXPECT_EQ(scaled_dot_product_attention(zeros({0, 3, 4}), zeros({0, 5, 4}), zeros({0, 5, 2})).shape(),
            (Shape{0, 3, 2}));
  EXPECT_EQ(scaled_dot_product_attention(zeros({3, 4}), zeros({0, 4}), zeros({0, 2})).to_vector<double>(),
            std::vector<double>(6, 0));
  EXPECT_EQ(scaled_dot_product_attention(zeros({0, 4}), zeros({3, 4}), zeros({3, 2}), {.is_causal = true}).shape(),
            (Shape{0, 2}));
  const Tensor q = zeros({3, 4});
  EXPECT_THAT(message_of<ShapeError>([&] {
                scaled_dot_product_attention(q, zeros({3, 5}), q);
              }),
              HasSubstr("[..., S, E]"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                scaled_dot_product_attention(q, q, zeros({2, 4}));
              }),
              HasSubstr("don't fit"));
  EXPECT_THAT(message_of<ShapeError>([&] { scaled_dot_product_attention(zeros({3}), q, q); }), HasSubstr("don't fit"));
  EXPECT_THAT(message_of<ShapeError>([&] {
                scaled_dot_product_attention(q, q, q, {.mask = zeros({2, 3, 3})});
              }),
              HasSubstr("mask doesn't broadcast"));
  EXPECT_THAT(message_of<DTypeError>([&] {
                scaled_dot_product_attention(q, q, q, {.mask = ones({3, 3}, DType::int64)});
              }),
              HasSubstr("neither bool"));
}

/// The ops one by one; rows whose scores are all masked are 0.
Tensor composed(const Tensor& scores, const Tensor& mask, bool is_causal, double scale) {
  const Tensor hidden = full_like(scores, -kMasked, Shape{});
  Tensor x = scores * scale;
  if (mask.defined()) {
    x = mask.dtype() == DType::boolean ? where(mask, x, hidden) : add(x, mask);
  }
  if (is_causal) {
    x = where(tril(ones(scores.shape(), DType::boolean)), x, hidden);
  }
  const Tensor result = softmax(x);
  return mask.defined() ? where(equal(max(x, {-1}, true), hidden), zeros_like(result), result) : result;
}

/// The ops that attention joins.
Tensor composition(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const Tensor weights = masked_softmax(matmul(q, transpose(k)), options.mask, options.is_causal, options.scale);
  return matmul(options.dropout > 0 ? dropout(weights, options.dropout, true, Generator(5)) : weights, v);
}

/// One op, however it would be called.
Tensor joined(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  std::vector<const Tensor*> inputs{&q, &k, &v};
  if (options.mask.defined()) {
    inputs.push_back(&options.mask);
  }
  if (options.dropout > 0) {
    const double p = options.dropout;
    const ops::DropoutAttentionAttributes attributes{options.scale, options.is_causal, 1 - p, p < 1 ? 1 / (1 - p) : 1};
    const Tensor state = Generator(5).draw();
    inputs.insert(inputs.begin(), &state);
    return apply(op::dropout_attention, inputs, &attributes, Location::current());
  }
  const ops::SoftmaxAttributes attributes{options.scale, options.is_causal};
  return apply(op::attention, inputs, &attributes, Location::current());
}

struct AttentionShape {
  Shape batch;
  std::int64_t rows, columns, width, values;
};

Shape with_axes(Shape shape, std::int64_t rows, std::int64_t columns) {
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

class AttentionBits : public ::testing::TestWithParam<DType> {
 protected:
  /// Result and gradients of attention and of its composition, bit by bit.
  static void expect_same(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
    const auto fused = [&](const Tensor& a, const Tensor& b, const Tensor& c) { return joined(a, b, c, options); };
    const auto parts = [&](const Tensor& a, const Tensor& b, const Tensor& c) { return composition(a, b, c, options); };
    const Tensor result = fused(q, k, v);
    ASSERT_TRUE(bitwise_equal(result, parts(q, k, v)));
    AttentionOptions fresh = options;
    fresh.generator = Generator(5);
    ASSERT_TRUE(bitwise_equal(result, scaled_dot_product_attention(q, k, v, fresh)));
    const Tensor weights = Rng(9).normal(result.shape(), 0, 1, q.dtype());
    const auto gradients = [&](const auto& f) {
      return grad([&](const Tensor& a, const Tensor& b, const Tensor& c) { return sum(mul(f(a, b, c), weights)); },
                  std::vector{0, 1, 2})(q, k, v);
    };
    const auto actual = gradients(fused);
    const auto expected = gradients(parts);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_TRUE(bitwise_equal(actual[i], expected[i])) << "gradient by "
                                                         << "qkv"[i];
    }
  }
};

TEST_P(AttentionBits, AreThoseOfTheOpsThatItJoins) {
  const DType dtype = GetParam();
  for (const auto& [batch, rows, columns, width, values] :
       {AttentionShape{{}, 1, 9, 4, 4}, AttentionShape{{2, 3}, 15, 15, 8, 8}, AttentionShape{{2}, 16, 33, 32, 20},
        AttentionShape{{2}, 197, 197, 32, 32}, AttentionShape{{}, 300, 260, 7, 64}, AttentionShape{{1}, 520, 530, 3, 1},
        AttentionShape{{1, 2}, 40, 1, 5, 6}, AttentionShape{{}, 33, 600, 270, 5}}) {
    const Tensor q = Rng(1).normal(with_axes(batch, rows, width), 0, 1, dtype);
    const Tensor k = transpose(Rng(2).normal(with_axes(batch, width, columns), 0, 1, dtype));
    const Tensor v = Rng(3).normal(with_axes(batch, columns, values), 0, 1, dtype);
    const Tensor bias = Rng(4).normal({rows, columns}, 0, 1, dtype);
    const Tensor column = Rng(5).normal({rows, 1}, 0, 1, dtype);
    const Tensor flags = greater(bias, full({}, 0.5, dtype));
    for (const Tensor& mask : {Tensor(), bias, flags, column}) {
      for (const bool is_causal : {false, true}) {
        for (const double p : {0.0, 0.3}) {
          SCOPED_TRACE(to_string(q.type()) + to_string(k.type()) + (mask.defined() ? to_string(mask.type()) : "") +
                       (is_causal ? " causal" : "") + (p > 0 ? " dropout" : ""));
          expect_same(q, k, v, {.mask = mask, .is_causal = is_causal, .scale = 0.4, .dropout = p});
        }
      }
    }
  }
}

/// The rows of x, but `value` in row `row`.
Tensor with_row(const Tensor& x, std::int64_t row, double value) {
  const Tensor rows = reshape(arange(static_cast<double>(x.shape()[0]), DType::int64), {x.shape()[0], 1});
  return where(equal(rows, full({}, static_cast<double>(row), DType::int64)), full_like(x, value, Shape{}), x);
}

// What a causal block leaves out would have been multiplied with these. A block is 32 rows, and 256 for gradients.
TEST_P(AttentionBits, AreThoseOfTheOpsThatItJoinsForSpecialValues) {
  const DType dtype = GetParam();
  for (const std::int64_t length : {80, 300}) {
    const Tensor x = Rng(1).normal({length, 8}, 0, 1, dtype);
    const AttentionOptions causal{.is_causal = true, .scale = 1};
    for (const double value : {static_cast<double>(NAN), kMasked, -kMasked, 0.0, -0.0}) {
      for (const std::int64_t row : {std::int64_t{3}, length - 10}) {
        SCOPED_TRACE(std::to_string(length) + " rows, " + std::to_string(value) + " in " + std::to_string(row));
        const Tensor y = with_row(x, row, value);
        expect_same(x, x, y, causal);
        expect_same(x, y, x, causal);
        expect_same(y, x, x, causal);
        AttentionOptions masked = causal;
        masked.mask = with_row(zeros({length, length}, dtype), row, value);
        expect_same(x, x, x, masked);
        // Dropout hides NaN in what a row attends to, not behind it.
        AttentionOptions dropping = causal;
        dropping.dropout = 0.9;
        expect_same(x, x, y, dropping);
        expect_same(y, x, x, dropping);
      }
    }
    // Finite operands, a score that isn't.
    const double large = dtype == DType::float32 ? 1e20 : 1e160;
    const Tensor y = with_row(x, 0, large);
    expect_same(y, y, x, causal);
    // Sums of negative products below the smallest number are -0, until a 0 is added.
    const Tensor tiny = full({length, 8}, dtype == DType::float32 ? -1e-45 : -5e-324, dtype);
    for (const double last : {-1.0, 1.0}) {
      expect_same(x, x, with_row(tiny, length - 1, last), causal);
      expect_same(x, with_row(tiny, length - 1, last), x, causal);
    }
  }
}

TEST_P(AttentionBits, AreThoseOfTheOpsThatItJoinsForMasksOfEachMatrix) {
  const Tensor q = Rng(1).normal({2, 3, 20, 8}, 0, 1, GetParam());
  const Tensor k = Rng(2).normal({2, 3, 33, 8}, 0, 1, GetParam());
  for (const Shape& shape :
       {Shape{2, 3, 20, 33}, Shape{2, 1, 20, 33}, Shape{3, 1, 33}, Shape{2, 1, 20, 1}, Shape{33}}) {
    const Tensor mask = Rng(3).normal(shape, 0, 1, GetParam());
    expect_same(q, k, k, {.mask = mask, .is_causal = false, .scale = 0.5});
    expect_same(q, k, k, {.mask = greater(mask, zeros_like(mask)), .is_causal = true, .scale = 0.5});
  }
  const Tensor turned = transpose(Rng(4).normal({2, 3, 33, 20}, 0, 1, GetParam()));
  expect_same(q, k, k, {.mask = turned, .is_causal = false, .scale = 0.5});
}

TEST_P(AttentionBits, AreTheSameOnEveryInstructionSetAndNumberOfThreads) {
  const Tensor q = Rng(1).normal({2, 270, 24}, 0, 1, GetParam());
  const Tensor k = Rng(2).normal({2, 290, 24}, 0, 1, GetParam());
  const Isa best = active_isa();
  for (const auto& [is_causal, p] : {std::pair{false, 0.0}, std::pair{true, 0.0}, std::pair{true, 0.2}}) {
    const AttentionOptions options{.is_causal = is_causal, .scale = 0.2, .dropout = p};
    const auto results = [&] {
      const auto attend = [&](const Tensor& a, const Tensor& b) { return joined(a, b, b, options); };
      std::vector<Tensor> all =
          grad([&](const Tensor& a, const Tensor& b) { return sum(square(attend(a, b))); }, std::vector{0, 1})(q, k);
      all.push_back(attend(q, k));
      return all;
    };
    const std::vector<Tensor> expected = results();
    for (const Isa isa : {Isa::generic, Isa::avx2}) {
      if (is_supported(isa)) {
        set_isa(isa);
        const std::vector<Tensor> actual = results();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(bitwise_equal(actual[i], expected[i]));
        }
        set_isa(best);
      }
    }
    for (const int threads : {2, 3, 4}) {
      const WithThreads with(threads, true);
      const std::vector<Tensor> actual = results();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(bitwise_equal(actual[i], expected[i])) << threads << " threads";
      }
    }
  }
}

TEST(Attention, RefusesMoreScoresThanThereCanBe) {
  const Tensor q = expand(zeros({1, 1}), {std::int64_t{1} << 32, 1});
  EXPECT_THAT(message_of<ShapeError>([&] {
                scaled_dot_product_attention(q, q, expand(zeros({1, 0}), {std::int64_t{1} << 32, 0}));
              }),
              HasSubstr("too many"));
}

TEST(Attention, DropoutOfAllOrNoneOrOfNoProbability) {
  const Tensor x = Rng(1).normal({4, 8});
  for (const double p : {0.0, 1.0}) {
    const Tensor expected = p > 0 ? zeros({4, 8}) : scaled_dot_product_attention(x, x, x);
    EXPECT_TRUE(bitwise_equal(scaled_dot_product_attention(x, x, x, {.dropout = p}), expected));
  }
  for (const double p : {-0.1, 1.1, static_cast<double>(NAN)}) {
    EXPECT_THAT(message_of<Error>([&] { scaled_dot_product_attention(x, x, x, {.dropout = p}); }),
                HasSubstr("outside [0, 1]"));
  }
}

TEST(Attention, DropoutDrawsOncePerCall) {
  const Tensor x = Rng(1).normal({2, 300, 8});
  const Generator one(3);
  const Generator other(3);
  for (int call = 0; call < 3; ++call) {
    const Tensor weights = dropout(masked_softmax(matmul(x, transpose(x)), {}, false, 0.5), 0.25, true, one);
    EXPECT_TRUE(bitwise_equal(
        scaled_dot_product_attention(x, x, x, {.scale = 0.5, .dropout = 0.25, .generator = other}), matmul(weights, x)))
        << call;
  }
}

INSTANTIATE_TEST_SUITE_P(Attention, AttentionBits, ::testing::Values(DType::float32, DType::float64),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

TEST(MaskedSoftmax, HasTheBitsOfTheOpsThatItJoins) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{1, 40, 197}, Shape{3, 64}, Shape{2, 4100}, Shape{33, 1}}) {
      const Tensor scores = Rng(1).normal(shape, 0, 3, dtype);
      const std::int64_t rows = shape[shape.rank() - 2];
      const Tensor bias = Rng(2).normal({rows, shape.back()}, 0, 1, dtype);
      const Tensor column = Rng(3).normal({rows, 1}, 0, 1, dtype);
      Tensor flags = greater(bias, full({}, -1, dtype));
      for (const Tensor& mask : {Tensor(), bias, flags, transpose(contiguous(transpose(flags))), column}) {
        for (const bool is_causal : {false, true}) {
          for (const double scale : {1.0, 0.3, -2.0, 0.0}) {
            const Tensor fused = masked_softmax(scores, mask, is_causal, scale);
            EXPECT_TRUE(bitwise_equal(fused, composed(scores, mask, is_causal, scale)))
                << to_string(shape) << (mask.defined() ? to_string(mask.type()) : "") << is_causal << scale;
          }
        }
      }
    }
  }
}

TEST(MaskedSoftmax, SpecialValuesComeThrough) {
  const auto row = [](const std::vector<double>& values) {
    return masked_softmax(Tensor::from(values, {1, static_cast<std::int64_t>(values.size())})).to_vector<double>();
  };
  EXPECT_THAT(row({0, NAN, 1}), Each(::testing::IsNan()));
  EXPECT_THAT(row({0, kMasked}), ::testing::Contains(::testing::IsNan()));
  EXPECT_EQ(row({-kMasked, 3}), (std::vector<double>{0, 1}));
  EXPECT_EQ(row({1e308, -1e308}), (std::vector<double>{1, 0}));
  // NaN before the diagonal reaches what lies behind it, as in the definition.
  const Tensor scores = Tensor::from({std::nan(""), 1.0, 2.0}, {1, 3});
  EXPECT_THAT(masked_softmax(scores, {}, true).to_vector<double>(), Each(::testing::IsNan()));
}

TEST(MaskedSoftmax, OneNaNMakesItsRowNaNWhereverItStands) {
  for (const std::int64_t length : {5, 31, 32, 33, 64, 70}) {
    for (const double other : {1.0, kMasked, -kMasked}) {
      for (std::int64_t at = 0; at < length; ++at) {
        std::vector<double> values(static_cast<std::size_t>(2 * length), other);
        values[static_cast<std::size_t>(at)] = std::nan("");
        for (const DType dtype : {DType::float32, DType::float64}) {
          const Tensor scores = cast(Tensor::from(values, {2, length}), dtype);
          const Tensor all_seen = full({2, length}, true, DType::boolean);
          for (const Tensor& result :
               {softmax(scores), masked_softmax(scores), masked_softmax(scores, full({}, 0.0, dtype)),
                masked_softmax(scores, all_seen), masked_softmax(scores, {}, false, -1)}) {
            const std::vector<double> row = select(result, 0, 0).to_vector<double>();
            EXPECT_THAT(row, Each(::testing::IsNan())) << length << " " << other << " " << at;
          }
          // The second row has none: with a mask it is zero where every score is -inf.
          const std::vector<double> row = select(masked_softmax(scores, all_seen), 0, 1).to_vector<double>();
          EXPECT_THAT(row, other == -kMasked ? Each(::testing::Eq(0))
                           : other == 1.0    ? Each(::testing::DoubleNear(1.0 / static_cast<double>(length), 1e-6))
                                             : ::testing::Matcher<std::vector<double>>(Each(::testing::IsNan())));
        }
      }
    }
  }
}

TEST(MaskedSoftmax, GradientsAreThoseOfTheOpsThatItJoins) {
  const Tensor scores = random_normal({2, 6, 9}, 1);
  const Tensor mask = random_normal({6, 1}, 2);
  const Tensor weights = random_normal({2, 6, 9}, 3);
  for (const bool is_causal : {false, true}) {
    const auto gradients = [&](auto&& f) {
      return grad([&](const Tensor& s, const Tensor& m) { return sum(mul(f(s, m, is_causal, 0.7), weights)); },
                  std::vector{0, 1})(scores, mask);
    };
    const auto fused = gradients([](const Tensor& s, const Tensor& m, bool causal, double scale) {
      return masked_softmax(s, m, causal, scale);
    });
    const auto expected = gradients(composed);
    for (std::size_t i = 0; i < 2; ++i) {
      expect_near(fused[i].to_vector<double>(), expected[i].to_vector<double>(), 1e-14);
    }
  }
}

}  // namespace
}  // namespace diptych::testing
