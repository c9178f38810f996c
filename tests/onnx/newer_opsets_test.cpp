// Operators as opsets 18 to 23 define them, which Debian's recorded cases (up to 17) don't cover: against formulas in
// double.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/onnx/imported.h"

namespace diptych::onnx {
namespace {

using diptych::testing::Builder;
using diptych::testing::doubles;
using diptych::testing::IsNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;
using List = std::vector<std::int64_t>;

std::vector<Tensor> outputs_of(const Builder& builder, const std::vector<Tensor>& inputs) {
  ImportedModel model = builder.imported();
  return model.call(inputs);
}

/// Each of `groups` of channels of [N, C, L] with mean 0 and variance 1.
std::vector<double> grouped(const std::vector<double>& x, int batches, int channels, int length, int groups,
                            double eps) {
  std::vector<double> y(x.size());
  const int each = channels / groups * length;
  for (int block = 0; block < batches * groups; ++block) {
    double mean = 0;
    double variance = 0;
    for (int i = 0; i < each; ++i) {
      mean += x[static_cast<std::size_t>(block * each + i)] / each;
    }
    for (int i = 0; i < each; ++i) {
      variance += std::pow(x[static_cast<std::size_t>(block * each + i)] - mean, 2) / each;
    }
    for (int i = 0; i < each; ++i) {
      const auto at = static_cast<std::size_t>(block * each + i);
      y[at] = (x[at] - mean) / std::sqrt(variance + eps);
    }
  }
  return y;
}

TEST(NewerOpsets, GroupNormalizationHasAWeightAGroupThenAChannel) {
  const Tensor x = Rng(1).normal({2, 4, 3});
  const std::vector<double> normal = grouped(doubles(x), 2, 4, 3, 2, 1e-5);
  const auto model = [](std::int64_t opset, const Tensor& scale, const Tensor& bias) {
    return Builder(opset)
        .input("x", DType::float32, {2, 4, 3})
        .constant("scale", scale)
        .constant("bias", bias)
        .node("GroupNormalization", {"x", "scale", "bias"}, {"y"}, {{"num_groups", std::int64_t{2}}})
        .output("y");
  };
  const std::vector<double> by_group{2, 3};
  const std::vector<double> by_channel{2, 3, 4, 5};
  std::vector<double> old_way;
  std::vector<double> new_way;
  for (std::size_t i = 0; i < normal.size(); ++i) {
    const std::size_t channel = i / 3 % 4;
    old_way.push_back(normal[i] * by_group[channel / 2] + by_group[channel / 2]);
    new_way.push_back(normal[i] * by_channel[channel] + by_channel[channel]);
  }
  const Tensor groups = Tensor::from({2.0F, 3.0F}, {2});
  const Tensor channels = Tensor::from({2.0F, 3.0F, 4.0F, 5.0F}, {4});
  EXPECT_THAT(doubles(outputs_of(model(18, groups, groups), {x})[0]), Pointwise(IsNear(1e-5), old_way));
  EXPECT_THAT(doubles(outputs_of(model(21, channels, channels), {x})[0]), Pointwise(IsNear(1e-5), new_way));
}

TEST(NewerOpsets, ReductionsTakeTheirAxesAsAnInput) {
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F}, {2, 2});
  const auto model = [](const char* op, std::map<std::string, AttributeValue> attributes, bool has_axes) {
    Builder builder(18);
    builder.input("x", DType::float32, {2, 2}).integers("axes", {-1});
    std::vector<std::string> inputs{"x"};
    if (has_axes) {
      inputs.emplace_back("axes");
    }
    return builder.node(op, inputs, {"y"}, std::move(attributes)).output("y");
  };
  const std::map<std::string, AttributeValue> flat{{"keepdims", std::int64_t{0}}};
  EXPECT_THAT(doubles(outputs_of(model("ReduceMean", flat, true), {x})[0]), ElementsAre(1.5, 3.5));
  EXPECT_THAT(doubles(outputs_of(model("ReduceMax", flat, true), {x})[0]), ElementsAre(2, 4));
  EXPECT_THAT(doubles(outputs_of(model("ReduceProd", flat, false), {x})[0]), ElementsAre(24));
  EXPECT_THAT(doubles(outputs_of(model("ReduceSumSquare", {{"noop_with_empty_axes", std::int64_t{1}}}, false), {x})[0]),
              ElementsAre(1, 4, 9, 16));
}

TEST(NewerOpsets, SplitLeavesTheLastPartShorter) {
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F, 7.0F}, {7});
  const std::vector<Tensor> parts =
      outputs_of(Builder(18)
                     .input("x", DType::float32, {7})
                     .node("Split", {"x"}, {"a", "b", "c"}, {{"num_outputs", std::int64_t{3}}})
                     .output("a")
                     .output("b")
                     .output("c"),
                 {x});
  EXPECT_THAT(doubles(parts[0]), ElementsAre(1, 2, 3));
  EXPECT_THAT(doubles(parts[1]), ElementsAre(4, 5, 6));
  EXPECT_THAT(doubles(parts[2]), ElementsAre(7));
}

TEST(NewerOpsets, PadTakesAxesAndWraps) {
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3});
  const Tensor y = outputs_of(Builder(19)
                                  .input("x", DType::float32, {2, 3})
                                  .integers("pads", {1, 2})
                                  .integers("axes", {1})
                                  .node("Pad", {"x", "pads", "", "axes"}, {"y"}, {{"mode", std::string("wrap")}})
                                  .output("y"),
                              {x})[0];
  EXPECT_EQ(y.shape(), (Shape{2, 6}));
  EXPECT_THAT(doubles(y), ElementsAre(3, 1, 2, 3, 1, 2, 6, 4, 5, 6, 4, 5));
}

TEST(NewerOpsets, ResizeKeepsTheAspectRatio) {
  const Tensor x = Rng(1).normal({1, 1, 4, 8});
  const auto shape = [&](const char* policy) {
    return outputs_of(Builder(18)
                          .input("x", DType::float32, {1, 1, 4, 8})
                          .integers("sizes", {6, 6})
                          .node("Resize", {"x", "", "", "sizes"}, {"y"},
                                {{"keep_aspect_ratio_policy", std::string(policy)}, {"axes", List{2, 3}}})
                          .output("y"),
                      {x})[0]
        .shape();
  };
  EXPECT_EQ(shape("stretch"), (Shape{1, 1, 6, 6}));
  EXPECT_EQ(shape("not_larger"), (Shape{1, 1, 3, 6}));    // by 6/8
  EXPECT_EQ(shape("not_smaller"), (Shape{1, 1, 6, 12}));  // by 6/4
}

TEST(NewerOpsets, GeluIsExactOrByTanh) {
  const Tensor x = Tensor::from({-3.0F, -0.5F, 0.0F, 0.7F, 4.0F}, {5});
  std::vector<double> exact;
  std::vector<double> by_tanh;
  for (const double v : doubles(x)) {
    exact.push_back(0.5 * v * (1 + std::erf(v / std::sqrt(2.0))));
    by_tanh.push_back(0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))));
  }
  const auto y = [&](std::map<std::string, AttributeValue> attributes) {
    return doubles(outputs_of(
        Builder(20).input("x", DType::float32, {5}).node("Gelu", {"x"}, {"y"}, std::move(attributes)).output("y"),
        {x})[0]);
  };
  EXPECT_THAT(y({}), Pointwise(IsNear(1e-6), exact));
  EXPECT_THAT(y({{"approximate", std::string("tanh")}}), Pointwise(IsNear(1e-6), by_tanh));
}

TEST(NewerOpsets, RmsNormalizationDividesByTheRootOfTheMeanSquare) {
  const Tensor x = Rng(3).normal({2, 5});
  const std::vector<double> values = doubles(x);
  std::vector<double> wanted;
  for (std::size_t row = 0; row < 2; ++row) {
    double square = 0;
    for (std::size_t i = 0; i < 5; ++i) {
      square += values[row * 5 + i] * values[row * 5 + i] / 5;
    }
    for (std::size_t i = 0; i < 5; ++i) {
      wanted.push_back(2 * values[row * 5 + i] / std::sqrt(square + 1e-5));
    }
  }
  const Tensor y = outputs_of(Builder(23)
                                  .input("x", DType::float32, {2, 5})
                                  .constant("scale", full({5}, 2))
                                  .node("RMSNormalization", {"x", "scale"}, {"y"})
                                  .output("y"),
                              {x})[0];
  EXPECT_THAT(doubles(y), Pointwise(IsNear(1e-5), wanted));
}

/// The model of one operator in an opset, on x.
std::vector<Tensor> of_opset(std::int64_t opset, const std::string& op, const Tensor& x, std::vector<Tensor> constants,
                             std::map<std::string, AttributeValue> attributes = {}, int outputs = 1) {
  Builder builder(opset);
  builder.input("x", x.dtype(), {x.shape().begin(), x.shape().end()});
  std::vector<std::string> inputs{"x"};
  for (const Tensor& constant : constants) {
    inputs.push_back("c" + std::to_string(inputs.size()));
    builder.constant(inputs.back(), constant);
  }
  std::vector<std::string> results;
  for (int i = 0; i < outputs; ++i) {
    results.push_back("y" + std::to_string(i));
    builder.output(results.back());
  }
  return outputs_of(builder.node(op, inputs, results, std::move(attributes)), {x});
}

// Opsets 24 and 25 give most operators more types and nothing else: what they did in 23, they do.
TEST(NewerOpsets, OperatorsOfOpsets24And25DoWhatTheyDidBefore) {
  const Tensor x = Tensor::from({1.5F, -2.5F, 3.0F, 0.5F}, {2, 2});
  const Tensor one = Tensor::from({std::int64_t{1}}, {1});
  const Tensor flat = Tensor::from({std::int64_t{4}}, {1});
  const Tensor widths = Tensor::from({std::int64_t{0}, std::int64_t{1}, std::int64_t{1}, std::int64_t{0}}, {4});
  const Tensor scale = Tensor::from({0.5F}, {});
  const Tensor shift = Tensor::from({std::int8_t{1}}, {});
  struct Case {
    const char* op;
    std::vector<Tensor> constants;
    std::map<std::string, AttributeValue> attributes = {};
  };
  const std::vector<Case> cases{{"Cast", {}, {{"to", std::int64_t{7}}}},
                                {"CastLike", {one}},
                                {"Flatten", {}},
                                {"Identity", {}},
                                {"Pad", {widths}, {{"mode", std::string("reflect")}}},
                                {"QuantizeLinear", {scale, shift}},
                                {"Reshape", {flat}},
                                {"Shape", {}, {{"start", std::int64_t{1}}}},
                                {"Size", {}},
                                {"Squeeze", {}},
                                {"TopK", {one}},
                                {"Transpose", {}},
                                {"Unsqueeze", {one}}};
  for (const Case& each : cases) {
    const Tensor before = of_opset(23, each.op, x, each.constants, each.attributes)[0];
    for (const std::int64_t opset : {24, 25}) {
      EXPECT_TRUE(bitwise_equal(of_opset(opset, each.op, x, each.constants, each.attributes)[0], before))
          << each.op << " " << opset;
    }
  }
  // What they add to casts is for 8-bit floats, and leaves the others as they are.
  const std::map<std::string, AttributeValue> rounding{
      {"to", std::int64_t{6}}, {"saturate", std::int64_t{0}}, {"round_mode", std::string("nearest")}};
  EXPECT_THAT(doubles(of_opset(25, "Cast", x, {}, rounding)[0]), ElementsAre(1, -2, 3, 0));
  // bf16 is new for TopK.
  const std::vector<Tensor> top = of_opset(24, "TopK", cast(x, DType::bfloat16), {one}, {}, 2);
  EXPECT_EQ(top[0].dtype(), DType::bfloat16);
  EXPECT_THAT(doubles(top[0]), ElementsAre(1.5, 3));
  EXPECT_THAT(doubles(top[1]), ElementsAre(0, 0));
}

/// softmax(q k^T / sqrt(E) + bias) v for heads of [L, E]; `hidden`: what a row doesn't see.
std::vector<double> attended(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                             std::size_t heads, std::size_t key_heads, std::size_t rows, std::size_t columns,
                             std::size_t width, const std::function<bool(std::size_t, std::size_t)>& hidden) {
  std::vector<double> y;
  for (std::size_t h = 0; h < heads; ++h) {
    const std::size_t key = h / (heads / key_heads);
    for (std::size_t i = 0; i < rows; ++i) {
      std::vector<double> weights;
      double total = 0;
      for (std::size_t j = 0; j < columns; ++j) {
        double score = 0;
        for (std::size_t e = 0; e < width; ++e) {
          score += q[(h * rows + i) * width + e] * k[(key * columns + j) * width + e];
        }
        weights.push_back(hidden(i, j) ? 0 : std::exp(score / std::sqrt(static_cast<double>(width))));
        total += weights.back();
      }
      for (std::size_t e = 0; e < width; ++e) {
        double sum = 0;
        for (std::size_t j = 0; j < columns; ++j) {
          sum += weights[j] / total * v[(key * columns + j) * width + e];
        }
        y.push_back(sum);
      }
    }
  }
  return y;
}

TEST(NewerOpsets, AttentionSharesKeysBetweenHeadsAndIsCausal) {
  const Tensor q = Rng(4).normal({1, 4, 3, 2});
  const Tensor k = Rng(5).normal({1, 2, 3, 2});
  const Tensor v = Rng(6).normal({1, 2, 3, 2});
  const auto model = [](std::int64_t causal) {
    return Builder(23)
        .input("q", DType::float32, {1, 4, 3, 2})
        .input("k", DType::float32, {1, 2, 3, 2})
        .input("v", DType::float32, {1, 2, 3, 2})
        .node("Attention", {"q", "k", "v"}, {"y"}, {{"is_causal", causal}})
        .output("y");
  };
  EXPECT_THAT(doubles(outputs_of(model(0), {q, k, v})[0]),
              Pointwise(IsNear(1e-5), attended(doubles(q), doubles(k), doubles(v), 4, 2, 3, 3, 2,
                                               [](std::size_t, std::size_t) { return false; })));
  EXPECT_THAT(doubles(outputs_of(model(1), {q, k, v})[0]),
              Pointwise(IsNear(1e-5), attended(doubles(q), doubles(k), doubles(v), 4, 2, 3, 3, 2,
                                               [](std::size_t row, std::size_t column) { return column > row; })));
}

TEST(NewerOpsets, AttentionContinuesBehindPastKeys) {
  const Tensor q = Rng(4).normal({1, 1, 2, 2});
  const Tensor k = Rng(5).normal({1, 1, 2, 2});
  const Tensor v = Rng(6).normal({1, 1, 2, 2});
  const Tensor past_k = Rng(7).normal({1, 1, 3, 2});
  const Tensor past_v = Rng(8).normal({1, 1, 3, 2});
  const std::vector<Tensor> results = outputs_of(
      Builder(23)
          .input("q", DType::float32, {1, 1, 2, 2})
          .input("k", DType::float32, {1, 1, 2, 2})
          .input("v", DType::float32, {1, 1, 2, 2})
          .input("pk", DType::float32, {1, 1, 3, 2})
          .input("pv", DType::float32, {1, 1, 3, 2})
          .node("Attention", {"q", "k", "v", "", "pk", "pv"}, {"y", "keys", "values"}, {{"is_causal", std::int64_t{1}}})
          .output("y")
          .output("keys")
          .output("values"),
      {q, k, v, past_k, past_v});
  EXPECT_TRUE(bitwise_equal(results[1], concat({past_k, k}, 2)));
  EXPECT_TRUE(bitwise_equal(results[2], concat({past_v, v}, 2)));
  EXPECT_THAT(doubles(results[0]),
              Pointwise(IsNear(1e-5), attended(doubles(q), doubles(results[1]), doubles(results[2]), 1, 1, 2, 5, 2,
                                               [](std::size_t row, std::size_t column) { return column > row + 3; })));
}

}  // namespace
}  // namespace diptych::onnx
