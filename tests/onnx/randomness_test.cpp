// Random numbers: their distribution, that they are the same in each import and both modes, and other ones in each
// call.

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/onnx/imported.h"
#include "tests/onnx/one_node.h"

namespace diptych::onnx {
namespace {

using diptych::testing::Attributes;
using diptych::testing::Builder;
using diptych::testing::doubles;
using diptych::testing::number;
using ::testing::Each;
using ::testing::ElementsAre;

std::vector<Tensor> calls(const Builder& builder, const std::vector<Tensor>& inputs, bool graph) {
  const auto model = std::make_shared<ImportedModel>(builder.imported());
  graph::JitFunction compiled(
      [&](std::span<const Tensor> arguments, std::shared_ptr<void>&) { return model->call(arguments); },
      {.name = "model"});
  std::vector<Tensor> results;
  for (int i = 0; i < 3; ++i) {
    const std::vector<Tensor> outputs =
        graph ? compiled.call(inputs, Location::current()).outputs : model->call(inputs);
    results.insert(results.end(), outputs.begin(), outputs.end());
  }
  return results;
}

/// The outputs of three calls, which are the same in eager and as a graph, and others in each call.
std::vector<Tensor> drawn_by(const Builder& builder, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> eager = calls(builder, inputs, false);
  const std::vector<Tensor> graph = calls(builder, inputs, true);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(eager[i], graph[i])) << "output " << i;
  }
  EXPECT_FALSE(bitwise_equal(eager[0], eager[eager.size() / 3]));
  EXPECT_THAT(builder.imported().drawn_outputs(inputs), Each(true));
  return eager;
}

struct Moments {
  double mean = 0;
  double variance = 0;
};
Moments moments_of(const std::vector<double>& values) {
  Moments found;
  for (const double value : values) {
    found.mean += value / static_cast<double>(values.size());
  }
  for (const double value : values) {
    found.variance += std::pow(value - found.mean, 2) / static_cast<double>(values.size());
  }
  return found;
}

constexpr std::int64_t kMany = 40'000;  // the mean of so many is within five of its deviations below

Builder random_node(const std::string& op, const Attributes& attributes) {
  const bool is_like = op.ends_with("Like");
  Builder builder(22);
  if (is_like) {
    builder.input("x", DType::float64, {kMany});
  }
  return builder.node(op, is_like ? std::vector<std::string>{"x"} : std::vector<std::string>{}, {"y"}, attributes)
      .output("y");
}

TEST(Randomness, NumbersHaveTheirDistribution) {
  const Attributes shape{{"shape", std::vector<std::int64_t>{kMany}}};
  const std::vector<Tensor> like{full({kMany}, 0, DType::float64)};
  for (const bool is_like : {false, true}) {
    Attributes normal{{"mean", 2.0}, {"scale", 3.0}};
    Attributes uniform{{"low", 2.0}, {"high", 6.0}};
    if (!is_like) {
      normal.insert(shape.begin(), shape.end());
      uniform.insert(shape.begin(), shape.end());
    }
    const std::string end = is_like ? "Like" : "";
    const std::vector<Tensor> inputs = is_like ? like : std::vector<Tensor>();
    const Tensor a = drawn_by(random_node("RandomNormal" + end, normal), inputs)[0];
    EXPECT_EQ(a.dtype(), is_like ? DType::float64 : DType::float32);
    EXPECT_NEAR(moments_of(doubles(a)).mean, 2, 5 * 3 / 200.0);
    EXPECT_NEAR(moments_of(doubles(a)).variance, 9, 0.4);
    const Tensor b = drawn_by(random_node("RandomUniform" + end, uniform), inputs)[0];
    EXPECT_NEAR(moments_of(doubles(b)).mean, 4, 5 * 1.16 / 200.0);
    EXPECT_NEAR(moments_of(doubles(b)).variance, 16 / 12.0, 0.05);
    EXPECT_THAT(doubles(b), Each(::testing::AllOf(::testing::Ge(2), ::testing::Lt(6))));
  }
}

TEST(Randomness, TypesAndSeeds) {
  const std::vector<Tensor> x{full({kMany}, 0, DType::float64)};
  const auto one = [&](const Attributes& attributes) {
    return drawn_by(random_node("RandomNormalLike", attributes), x)[0];
  };
  EXPECT_EQ(one({{"dtype", number(10)}}).dtype(), DType::float16);
  EXPECT_TRUE(bitwise_equal(one({}), one({})));
  EXPECT_TRUE(bitwise_equal(one({{"seed", 1.0}}), one({{"seed", 1.0}})));
  EXPECT_FALSE(bitwise_equal(one({{"seed", 1.0}}), one({{"seed", 2.0}})));
  EXPECT_FALSE(bitwise_equal(one({{"seed", 1.0}}), one({})));
  // Two nodes without seeds draw different numbers.
  ImportedModel two = Builder(22)
                          .input("x", DType::float32, {8})
                          .node("RandomNormalLike", {"x"}, {"a"})
                          .node("RandomNormalLike", {"x"}, {"b"})
                          .output("a")
                          .output("b")
                          .imported();
  const std::vector<Tensor> outputs = two.call(std::vector<Tensor>{full({8}, 0)});
  EXPECT_FALSE(bitwise_equal(outputs[0], outputs[1]));
}

TEST(Randomness, BernoulliAndMultinomialFollowTheirProbabilities) {
  const Tensor p = Tensor::from(std::vector<double>(kMany, 0.25), {kMany});
  const Tensor tosses = drawn_by(Builder(22)
                                     .input("p", DType::float64, {kMany})
                                     .node("Bernoulli", {"p"}, {"y"}, {{"dtype", number(6)}})
                                     .output("y"),
                                 {p})[0];
  EXPECT_EQ(tosses.dtype(), DType::int32);
  EXPECT_NEAR(moments_of(doubles(tosses)).mean, 0.25, 5 * 0.44 / 200);

  const std::vector<double> shares{0.5, 0.2, 0, 0.3};
  std::vector<double> logarithms;
  for (const double share : shares) {
    logarithms.push_back(std::log(share) + 7);  // not normalised
  }
  const Tensor classes = drawn_by(Builder(22)
                                      .input("x", DType::float64, {1, 4})
                                      .node("Multinomial", {"x"}, {"y"}, {{"sample_size", number(kMany)}})
                                      .output("y"),
                                  {Tensor::from(logarithms, {1, 4})})[0];
  EXPECT_EQ(classes.type(), (TensorType{DType::int32, {1, kMany}}));
  std::vector<double> counts(4, 0);
  for (const double value : doubles(classes)) {
    counts.at(static_cast<std::size_t>(value)) += 1;
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(counts[i] / kMany, shares[i], 5 * 0.5 / 200) << i;
  }
  EXPECT_EQ(counts[2], 0);
}

Builder dropout_in_training(double ratio, bool trains) {
  return Builder(13)
      .input("x", DType::float64, {kMany})
      .constant("ratio", full({}, ratio))
      .constant("trains", Tensor::from({trains}, {}))
      .node("Dropout", {"x", "ratio", "trains"}, {"y", "mask"}, {{"seed", number(3)}})
      .output("y")
      .output("mask");
}

TEST(Randomness, DropoutInTrainingDropsItsShareAndScalesTheRest) {
  const Tensor x = add(Rng(1).uniform({kMany}, 0, 1, DType::float64), full({}, 1, DType::float64));
  const std::vector<Tensor> outputs = drawn_by(dropout_in_training(0.75, true), {x});
  const std::vector<double> y = doubles(outputs[0]);
  const std::vector<double> mask = doubles(outputs[1]);
  EXPECT_EQ(outputs[1].dtype(), DType::boolean);
  EXPECT_NEAR(moments_of(mask).mean, 0.25, 5 * 0.44 / 200);
  for (std::size_t i = 0; i < y.size(); ++i) {
    EXPECT_DOUBLE_EQ(y[i], mask[i] * doubles(x)[i] * 4) << i;
    if (i == 100) {
      break;  // doubles() copies
    }
  }
  // Its gradient is that of the elements it kept.
  ImportedModel model = dropout_in_training(0.75, true).imported();
  const std::vector<double> slopes =
      doubles(grad([&](const Tensor& t) { return sum(model.call(std::vector<Tensor>{t})[0]); })(x));
  for (std::size_t i = 0; i < y.size(); ++i) {
    ASSERT_DOUBLE_EQ(slopes[i], mask[i] * 4) << i;
  }
  for (const auto& [ratio, trains] : {std::pair(0.0, true), std::pair(0.75, false)}) {
    ImportedModel same = dropout_in_training(ratio, trains).imported();
    EXPECT_THAT(same.drawn_outputs(std::vector<Tensor>{x}), ElementsAre(false, false));
    const std::vector<Tensor> kept = same.call(std::vector<Tensor>{x});
    EXPECT_TRUE(bitwise_equal(kept[0], x));
    EXPECT_THAT(doubles(kept[1]), Each(1));
  }
}

TEST(Randomness, OldDropoutsTrainUnlessTheySayNot) {
  const Builder builder =
      Builder(6).input("x", DType::float64, {kMany}).node("Dropout", {"x"}, {"y"}, {{"ratio", 0.5}}).output("y");
  const Tensor y = drawn_by(builder, {full({kMany}, 1, DType::float64)})[0];
  EXPECT_THAT(doubles(y), Each(::testing::AnyOf(0, 2)));
}

TEST(Randomness, LoopsDrawAnewInEachIterationAndShapesOfRandomNumbersAreKnown) {
  Builder body;
  body.input("i", DType::int64, {}).input("go", DType::boolean, {});
  body.node("Identity", {"go"}, {"still"}).node("RandomNormalLike", {"x"}, {"row"}).output("still").output("row");
  const Builder builder = Builder(22)
                              .input("x", DType::float32, {4})
                              .constant("trips", Tensor::scalar(std::int64_t{2}))
                              .node("Loop", {"trips", ""}, {"rows"}, {{"body", body.body()}})
                              .node("Shape", {"rows"}, {"shape"})
                              .node("Reshape", {"x", "four"}, {"same"})
                              .integers("four", {4})
                              .output("rows")
                              .output("shape")
                              .output("same");
  ImportedModel model = builder.imported();
  const std::vector<Tensor> x{full({4}, 1)};
  EXPECT_THAT(model.drawn_outputs(x), ElementsAre(true, false, false));
  const std::vector<Tensor> outputs = model.call(x);
  EXPECT_FALSE(bitwise_equal(contiguous(select(outputs[0], 0, 0)), contiguous(select(outputs[0], 0, 1))));
  EXPECT_THAT(doubles(outputs[1]), ElementsAre(2, 4));
}

}  // namespace
}  // namespace diptych::onnx
