// Attention that is written as its ops, eager against graph, and which graphs have the op.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/dispatch/apply.h"
#include "framework/ops/creation_ops.h"
#include "framework/ops/row_ops.h"
#include "tests/graph/variants.h"
#include "tests/support/with_gemm.h"

namespace diptych::passes {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

/// q, k and v of [2, 3, 40, 8] each.
std::array<Tensor, 3> parts(const Tensor& x) {
  std::array<Tensor, 3> result;
  for (int i = 0; i < 3; ++i) {
    result[static_cast<std::size_t>(i)] = transpose(select(x, 2, i), 1, 2);
  }
  return result;
}
Tensor input() { return Rng(1).normal({2, 40, 3, 3, 8}); }
Tensor scores_of(const std::array<Tensor, 3>& qkv) { return matmul(qkv[0], transpose(qkv[1])); }

/// Whether the compiled graph has the op; expects eager's bits.
bool has_attention(const Function& fn, const Tensor& x = input(), const OpDef* attention = &op::attention) {
  auto function = jit(fn);
  EXPECT_TRUE(bitwise_equal(function(x), fn(x)));
  const auto& nodes = function.compiled()->graph()->nodes;
  return std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) { return node.op == attention; });
}

TEST(JoinAttention, FindsItInEachForm) {
  const Tensor mask = greater(Rng(2).normal({40, 40}), zeros({}));
  const std::vector<std::pair<const char*, Function>> forms{
      {"softmax", [](const Tensor& x) { return matmul(softmax(scores_of(parts(x))), parts(x)[2]); }},
      {"scaled", [](const Tensor& x) { return matmul(softmax(scores_of(parts(x)) * 0.3), parts(x)[2]); }},
      {"scale first", [](const Tensor& x) { return matmul(softmax(0.3 * scores_of(parts(x))), parts(x)[2]); }},
      {"masked", [&](const Tensor& x) { return matmul(masked_softmax(scores_of(parts(x)), mask), parts(x)[2]); }},
      {"causal",
       [](const Tensor& x) { return matmul(masked_softmax(scores_of(parts(x)), {}, true, 0.5), parts(x)[2]); }}};
  for (const auto& [name, form] : forms) {
    EXPECT_TRUE(has_attention(form)) << name;
  }
}

Tensor later(std::int64_t length) { return triu(full(Shape{length, length}, 1.0, DType::boolean), 1); }
Tensor hidden() { return full(Shape{}, -std::numeric_limits<double>::infinity()); }

TEST(JoinAttention, FindsACausalMaskByItsElements) {
  const auto written = [](const Tensor& x) {
    return matmul(softmax(where(later(40), hidden(), scores_of(parts(x)) * 0.3)), parts(x)[2]);
  };
  EXPECT_TRUE(has_attention(written));
  EXPECT_TRUE(has_attention([](const Tensor& x) {
    const Tensor earlier = unsqueeze(logical_not(later(40)), 0);
    return matmul(softmax(where(earlier, scores_of(parts(x)), hidden())), parts(x)[2]);
  })) << "the other way round, with another axis";
  // Numbers that are not finite, in places that are hidden from some rows.
  for (const double number : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    for (const std::int64_t token : {0, 20, 39}) {
      for (const std::int64_t part : {0, 1, 2}) {
        std::vector<float> elements = input().to_vector<float>();
        elements[static_cast<std::size_t>((token * 3 + part) * 24 + 5)] = static_cast<float>(number);
        EXPECT_TRUE(has_attention(written, Tensor::from(elements, {2, 40, 3, 3, 8})))
            << number << " in token " << token << " of part " << part;
      }
    }
  }
}

TEST(JoinAttention, LeavesOtherMasks) {
  EXPECT_FALSE(has_attention([](const Tensor& x) {
    return matmul(softmax(where(logical_not(later(40)), hidden(), scores_of(parts(x)))), parts(x)[2]);
  })) << "rows see what is later, and the last row nothing";
  EXPECT_FALSE(has_attention([](const Tensor& x) {
    return matmul(softmax(where(later(40), full(Shape{}, -1e9), scores_of(parts(x)))), parts(x)[2]);
  })) << "hidden scores are finite";
  EXPECT_FALSE(has_attention([](const Tensor& x) {
    return matmul(softmax(where(triu(full(Shape{40, 40}, 1.0, DType::boolean), 0), hidden(), scores_of(parts(x)))),
                  parts(x)[2]);
  })) << "a token doesn't see itself";
}

TEST(JoinAttention, LeavesWhatItMustNotJoin) {
  EXPECT_FALSE(has_attention([](const Tensor& x) {
    const Tensor weights = softmax(scores_of(parts(x)));
    return add(matmul(weights, parts(x)[2]), sum(weights));
  })) << "the weights are read twice";
  EXPECT_FALSE(has_attention([](const Tensor& x) {
    const Tensor scores = scores_of(parts(x));
    return add(matmul(softmax(scores), parts(x)[2]), sum(scores));
  })) << "the scores are read twice";
  EXPECT_FALSE(has_attention([](const Tensor& x) {
    return matmul(softmax(scores_of(parts(x))), select(select(parts(x)[2], 0, 0), 0, 0));
  })) << "v is broadcast";
  EXPECT_FALSE(has_attention([](const Tensor& x) { return matmul(softmax(scores_of(parts(x)) * -0.3), parts(x)[2]); }))
      << "the largest score is the smallest scaled one";
  EXPECT_FALSE(has_attention([](const Tensor& x) { return matmul(softmax(scores_of(parts(x)), -2), parts(x)[2]); }))
      << "softmax of the columns";
  EXPECT_FALSE(has_attention([](const Tensor& x) {
    return matmul(softmax(add(scores_of(parts(x)), full({}, -INFINITY))), parts(x)[2]);
  })) << "a row that is masked wholly is NaN in this form";
  EXPECT_FALSE(has_attention([](const Tensor& x) { return matmul(softmax(scores_of(parts(x))), parts(x)[2]); },
                             cast(input(), DType::bfloat16)))
      << "bf16 is rounded at each op";
}

/// Of the pass, as text without the explanations.
std::vector<std::string> refusals_of(const Function& fn) {
  auto function = jit(fn);
  function(input());
  std::vector<std::string> texts;
  for (const PassRecord& record : function.compiled()->ledger().front().passes) {
    for (const FusionRefusal& refusal :
         record.name == std::string("attention") ? record.refusals : std::vector<FusionRefusal>()) {
      texts.push_back(std::string(refusal.producer_op->name) + " -> " + refusal.consumer_op->name + ": " +
                      std::string(name_of(refusal.why)));
    }
  }
  return texts;
}

TEST(JoinAttention, SaysWhyNot) {
  EXPECT_THAT(refusals_of([](const Tensor& x) {
                const Tensor weights = softmax(scores_of(parts(x)));
                return add(matmul(weights, parts(x)[2]), sum(weights));
              }),
              ::testing::ElementsAre("softmax -> matmul: several uses"));
  EXPECT_THAT(refusals_of([](const Tensor& x) {
                const Tensor scores = scores_of(parts(x));
                return add(matmul(softmax(scores * 0.5), parts(x)[2]), sum(scores));
              }),
              ::testing::ElementsAre("softmax -> matmul: several uses"));
  // Forty tokens: with the weights at hand, its gradient takes less time.
  EXPECT_THAT(refusals_of([](const Tensor& x) {
                return grad([](const Tensor& y) {
                  const Tensor scores = matmul(y * 0.5, transpose(y * 0.25));
                  return sum(square(matmul(masked_softmax(scores, {}, true, 0.5), y * 2.0)));
                })(parts(x)[0]);
              }),
              ::testing::ElementsAre("masked_softmax -> matmul: unprofitable"));
  EXPECT_THAT(refusals_of([](const Tensor& x) { return matmul(softmax(scores_of(parts(x))), parts(x)[2]); }),
              ::testing::IsEmpty());
}

TEST(JoinAttention, FindsDropoutOfTheWeights) {
  const auto dropped = [](const Tensor& weights) {
    const Tensor mask = bernoulli(weights.shape(), 0.75, DType::boolean, Generator(4));
    const ops::MaskedScaleAttributes scale{4.0 / 3};
    return apply(op::masked_scale, std::array{&mask, &weights}, &scale, Location::current());
  };
  EXPECT_TRUE(has_attention([&](const Tensor& x) { return matmul(dropped(softmax(scores_of(parts(x)))), parts(x)[2]); },
                            input(), &op::dropout_attention));
  EXPECT_TRUE(has_attention(
      [](const Tensor& x) {
        return matmul(dropout(masked_softmax(scores_of(parts(x)), {}, true, 0.5), 0.1, true, Generator(4)),
                      parts(x)[2]);
      },
      input(), &op::dropout_attention));
  EXPECT_FALSE(has_attention(
      [&](const Tensor& x) {
        const Tensor mask = bernoulli({40}, 0.75, DType::boolean, Generator(4));
        const ops::MaskedScaleAttributes scale{4.0 / 3};
        const Tensor weights = softmax(scores_of(parts(x)));
        return matmul(apply(op::masked_scale, std::array{&mask, &weights}, &scale, Location::current()), parts(x)[2]);
      },
      input(), &op::dropout_attention))
      << "a number for each column";
}

// Gradients, of [heads, length, 8] each, in graphs that give the result and the gradients by q, k and v.

using Attend = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)>;

struct Joined {
  bool forward = false;
  bool gradient = false;
};

/// What is joined in the result of `attend` with its gradients, against `g`; expects eager's bits.
Joined joined_with_gradients(const Attend& attend, const std::array<Tensor, 3>& qkv, const Tensor& g,
                             std::vector<int> by = {0, 1, 2}) {
  const auto step = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    Tensor result;
    const auto loss = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
      result = attend(a, b, c);
      return sum(mul(result, g));
    };
    std::vector<Tensor> all = grad(loss, by)(q, k, v);
    all.push_back(stop_gradient(result));
    return all;
  };
  auto function = jit(step);
  const std::vector<Tensor> actual = function(qkv[0], qkv[1], qkv[2]);
  const std::vector<Tensor> expected = step(qkv[0], qkv[1], qkv[2]);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(actual[i], expected[i])) << "result " << i;
  }
  Joined joined;
  for (const auto& node : function.compiled()->graph()->nodes) {
    joined.forward = joined.forward || node.op == &op::attention || node.op == &op::dropout_attention;
    joined.gradient =
        joined.gradient || node.op == &op::attention_backward || node.op == &op::dropout_attention_backward;
  }
  return joined;
}

std::array<Tensor, 3> random_parts(std::int64_t length, DType dtype = DType::float32) {
  return {Rng(1).normal({2, length, 8}, 0, 1, dtype), Rng(2).normal({2, length, 8}, 0, 1, dtype),
          Rng(3).normal({2, length, 8}, 0, 1, dtype)};
}
Tensor gradient_of(std::int64_t length, DType dtype = DType::float32) {
  return Rng(4).normal({2, length, 8}, 0, 1, dtype);
}

/// Scores hidden by `where`, as most people write it.
Tensor written_weights(const Tensor& q, const Tensor& k) {
  const Tensor scores = matmul(q, transpose(k));
  return softmax(where(later(q.shape()[1]), full({}, -INFINITY, q.dtype()), scores * 0.3));
}
Tensor written(const Tensor& q, const Tensor& k, const Tensor& v) { return matmul(written_weights(q, k), v); }
Tensor written_with_dropout(const Tensor& q, const Tensor& k, const Tensor& v) {
  return matmul(dropout(written_weights(q, k), 0.1, true, Generator(4)), v);
}
Tensor causal(const Tensor& q, const Tensor& k, const Tensor& v) {
  return matmul(masked_softmax(matmul(q, transpose(k)), {}, true, 0.3), v);
}

TEST(JoinAttention, FindsGradientsOfWhatIsCausal) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const std::int64_t length : {130, 200, 300}) {
      const Joined by_where = joined_with_gradients(written, random_parts(length, dtype), gradient_of(length, dtype));
      EXPECT_TRUE(by_where.forward && by_where.gradient) << length;
      const Joined masked = joined_with_gradients(causal, random_parts(length, dtype), gradient_of(length, dtype));
      EXPECT_EQ(masked.gradient, length >= 192) << length;
      EXPECT_EQ(masked.forward, masked.gradient) << length;
    }
  }
  const auto other_way = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor scores = 0.3 * matmul(q, transpose(k));
    return matmul(softmax(where(logical_not(later(130)), scores, hidden())), v);
  };
  EXPECT_TRUE(joined_with_gradients(other_way, random_parts(130), gradient_of(130)).gradient);
  const auto without_scale = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    return matmul(softmax(where(later(130), hidden(), matmul(q, transpose(k)))), v);
  };
  EXPECT_TRUE(joined_with_gradients(without_scale, random_parts(130), gradient_of(130)).gradient);
  const auto dropping = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor weights = masked_softmax(matmul(q, transpose(k)), {}, true, 0.5);
    return matmul(dropout(weights, 0.1, true, Generator(4)), v);
  };
  EXPECT_TRUE(joined_with_gradients(dropping, random_parts(400), gradient_of(400)).gradient);
  EXPECT_FALSE(joined_with_gradients(dropping, random_parts(390), gradient_of(390)).gradient);
  EXPECT_TRUE(joined_with_gradients(written_with_dropout, random_parts(224), gradient_of(224)).gradient);
  EXPECT_FALSE(joined_with_gradients(written_with_dropout, random_parts(210), gradient_of(210)).gradient);
  const auto by_positions = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor rows = reshape(arange(130), {130, 1});
    const Tensor scores = where(less(rows, transpose(rows)), hidden(), matmul(q, transpose(k)));
    return matmul(softmax(scores), v);
  };
  EXPECT_TRUE(joined_with_gradients(by_positions, random_parts(130), gradient_of(130)).gradient);
}

TEST(JoinAttention, FindsGradientsOfTransposedHeads) {
  const auto heads = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    const auto turn = [](const Tensor& x) { return transpose(reshape(x, {2, 130, 2, 4}), 1, 2); };
    const Tensor scores = matmul(turn(q), transpose(turn(k))) * 0.5;
    const Tensor mixed = matmul(softmax(where(later(130), hidden(), scores)), turn(v));
    return reshape(transpose(mixed, 1, 2), {2, 130, 8});
  };
  EXPECT_TRUE(joined_with_gradients(heads, random_parts(130), gradient_of(130)).gradient);
}

// What is hidden is computed by `where` and not by the op: numbers that are not finite, or overflow there, count.
TEST(JoinAttention, KeepsTheBitsOfGradientsOfSpecialValues) {
  const auto try_numbers = [](const Attend& attend, std::int64_t length) {
    for (const double number : {HUGE_VAL, -HUGE_VAL, std::nan(""), 1e38, -1e38, 1e20, -0.0}) {
      for (const std::int64_t token : {std::int64_t{0}, std::int64_t{70}, length - 1}) {
        for (std::size_t part = 0; part < 4; ++part) {
          SCOPED_TRACE(std::to_string(number) + " in token " + std::to_string(token) + " of part " +
                       std::to_string(part));
          std::array<Tensor, 3> qkv = random_parts(length);
          Tensor g = gradient_of(length);
          Tensor& changed = part < 3 ? qkv[part] : g;
          std::vector<float> elements = changed.to_vector<float>();
          std::fill_n(elements.begin() + token * 8, 8, static_cast<float>(number));
          changed = Tensor::from(elements, {2, length, 8});
          EXPECT_TRUE(joined_with_gradients(attend, qkv, g).gradient);
        }
      }
    }
    // Finite by themselves, too large together, where a row doesn't look.
    std::array<Tensor, 3> qkv = random_parts(length);
    std::vector<float> v = qkv[2].to_vector<float>();
    std::fill_n(v.begin() + (length - 1) * 8, 8, 1e25F);
    qkv[2] = Tensor::from(v, {2, length, 8});
    std::vector<float> g = gradient_of(length).to_vector<float>();
    std::fill_n(g.begin(), 8, 1e25F);
    EXPECT_TRUE(joined_with_gradients(attend, qkv, Tensor::from(g, {2, length, 8})).gradient);
    EXPECT_TRUE(joined_with_gradients(attend, random_parts(length), full({2, length, 8}, -1e-45)).gradient);
  };
  try_numbers(written, 130);
  try_numbers(written_with_dropout, 230);
  EXPECT_TRUE(joined_with_gradients(causal, random_parts(200), full({2, 200, 8}, -1e-45)).gradient);
  // No dropout() has such a factor: what is kept of zeros is NaN.
  for (const double factor : {std::nan(""), 1e39, HUGE_VAL}) {
    const auto scaled = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
      const Tensor weights = written_weights(q, k);
      const ops::MaskedScaleAttributes scale{factor};
      const Tensor kept = bernoulli(weights.shape(), 0.01, DType::boolean, Generator(4));
      return matmul(apply(op::masked_scale, std::array{&kept, &weights}, &scale, Location::current()), v);
    };
    const Joined joined = joined_with_gradients(scaled, random_parts(230), gradient_of(230));
    EXPECT_FALSE(joined.forward || joined.gradient) << factor;
  }
}

TEST(JoinAttention, LeavesGradientsThatItMustNotJoin) {
  const auto is_joined = [](const Attend& attend, std::int64_t length, std::vector<int> by = {0, 1, 2}) {
    const Joined joined = joined_with_gradients(attend, random_parts(length), gradient_of(length), std::move(by));
    return joined.forward || joined.gradient;
  };
  EXPECT_FALSE(is_joined(written, 40)) << "to compute few scores again takes longer";
  EXPECT_FALSE(is_joined(
      [](const Tensor& q, const Tensor& k, const Tensor& v) { return matmul(softmax(matmul(q, transpose(k))), v); },
      300))
      << "nothing is hidden";
  EXPECT_FALSE(is_joined(written, 130, {0, 1})) << "the gradient by v isn't wanted";
  EXPECT_FALSE(is_joined(
      [](const Tensor& q, const Tensor& k, const Tensor& v) {
        const Tensor scores = where(later(130), hidden(), matmul(q, transpose(k)) * 0.3);
        const Tensor weights = softmax(scores);
        return add(matmul(weights, v), sum(weights));
      },
      130))
      << "something else reads the weights";
}

TEST(JoinAttention, LeavesProductsToBlas) {
  const diptych::testing::WithGemm blas(kernels::Gemm::openblas);
  EXPECT_FALSE(has_attention([](const Tensor& x) { return matmul(softmax(scores_of(parts(x))), parts(x)[2]); }));
}

}  // namespace
}  // namespace diptych::passes
