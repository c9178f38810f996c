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

TEST(JoinAttention, LeavesProductsToBlas) {
  const testing::WithGemm blas(kernels::Gemm::openblas);
  EXPECT_FALSE(has_attention([](const Tensor& x) { return matmul(softmax(scores_of(parts(x))), parts(x)[2]); }));
}

}  // namespace
}  // namespace diptych::passes
