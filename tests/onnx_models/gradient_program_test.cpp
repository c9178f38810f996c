// `model.onnx:gradients` and `model.onnx:train=...`: by which tensors, whether they are the derivatives, and what
// becomes of the weights.

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/temporary_folder.h"
#include "framework/io/onnx/export.h"
#include "tests/onnx/imported.h"
#include "workloads/onnx/workload.h"

namespace diptych::workloads {
namespace {

using diptych::testing::Builder;
using diptych::testing::doubles;
using diptych::testing::error_of;
using diptych::testing::IsNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using ::testing::SizeIs;

Tensor random(std::uint64_t seed, const Shape& shape) { return Rng(seed).normal(shape, 0, 1, DType::float64); }

/// Two outputs, one of them integers, and initializers of every kind.
Builder model() {
  return Builder()
      .input("x", DType::float64, {"batch", 4})
      .input("ids", DType::int64, {"batch"})
      .constant("w", random(1, {4, 6}))
      .constant("table", random(2, {5, 6}))
      .constant("unread", random(3, {2}))
      .constant("ranked", random(4, {3}))
      .constant("half", full({}, 0.5, DType::float64))
      .constant("scale", random(5, {3}))
      .constant("offset", random(6, {3}))
      .constant("mean", random(7, {3}))
      .constant("variance", full({3}, 2.0, DType::float64))
      .integers("rows", {-1, 3, 2})
      .node("MatMul", {"x", "w"}, {"projected"})
      .node("Gather", {"table", "ids"}, {"embedded"})
      .node("Add", {"projected", "embedded"}, {"sum"})
      .node("Mul", {"sum", "half"}, {"halved"})
      .node("Reshape", {"halved", "rows"}, {"channels"})
      .node("BatchNormalization", {"channels", "scale", "offset", "mean", "variance"}, {"y"})
      .node("ArgMax", {"ranked"}, {"best"}, {{"axis", onnx::AttributeValue(std::int64_t{0})}})
      .output("y")
      .output("best");
}

TEST(OnnxGradients, AreTakenByWhatTrainingMovesAndAreTheDerivatives) {
  OnnxSpec spec = parse_onnx_name("m.onnx:batch=2,gradients");
  EXPECT_TRUE(spec.gradients);
  EXPECT_EQ(onnx_name(spec), "m.onnx:batch=2,gradients");
  const OnnxGradients made = make_onnx_gradients(model().model(), spec, 11);
  // Not: integers, what nothing reads, what ends in ArgMax, a number without axes, running statistics, shapes.
  ASSERT_THAT(made.by, ElementsAre("x", "offset", "scale", "table", "w"));
  ASSERT_THAT(made.cotangents, SizeIs(2));

  onnx::ImportedModel plain = model().imported({.bound = {}, .arguments = {"offset", "scale", "table", "w"}});
  ASSERT_THAT(made.inputs, SizeIs(2 + 4 + 2));  // inputs, weights, cotangents
  const auto loss = [&](const std::vector<Tensor>& given) {
    double total = 0;
    const std::vector<double> y = doubles(plain.call(given)[0]);
    const std::vector<double> cotangent = doubles(made.cotangents[0]);
    for (std::size_t i = 0; i < y.size(); ++i) {
      total += y[i] * cotangent[i];
    }
    return total;
  };
  const std::vector<Tensor> gradients = made.function(made.inputs);
  ASSERT_THAT(gradients, SizeIs(made.by.size()));
  const std::vector<std::size_t> places = {0, 2, 3, 4, 5};
  for (std::size_t k = 0; k < places.size(); ++k) {
    std::vector<Tensor> given(made.inputs.begin(), made.inputs.begin() + 6);
    const std::vector<double> values = doubles(given[places[k]]);
    std::vector<double> wanted;
    for (std::size_t i = 0; i < values.size(); ++i) {
      constexpr double kStep = 1e-6;
      const auto moved = [&](double by) {
        std::vector<double> changed = values;
        changed[i] += by;
        given[places[k]] = Tensor::from(changed, made.inputs[places[k]].shape());
        return loss(given);
      };
      wanted.push_back((moved(kStep) - moved(-kStep)) / (2 * kStep));
    }
    EXPECT_THAT(doubles(gradients[k]), Pointwise(IsNear(1e-7), wanted)) << made.by[k];
  }
}

TEST(OnnxGradients, AreAWorkloadThatSaysSo) {
  const TemporaryFolder folder("diptych-gradients");
  onnx::write_model(*model().model(), folder.path() / "m.onnx");
  const Workload& workload = onnx_workload((folder.path() / "m.onnx:batch=2,gradients").string());
  EXPECT_THAT(workload.title, HasSubstr("gradients by 5 tensors"));
  EXPECT_EQ(workload.unit, "forward and backward pass");
  const std::unique_ptr<Program> program = workload.make(3);
  EXPECT_FALSE(program->is_forward());
  EXPECT_THAT(program->body(program->inputs(0)), SizeIs(5));
}

TEST(OnnxGradients, ThatDoNotExistAreRefused) {
  const Builder counts = Builder().input("x", DType::float32, {3}).node("ArgMax", {"x"}, {"y"}).output("y");
  EXPECT_THAT(error_of([&] { make_onnx_gradients(counts.model(), parse_onnx_name("m.onnx:gradients"), 1); }),
              HasSubstr("nothing to take gradients by: every way to its outputs leads through one like node "
                        "\"ArgMax_0\" (ArgMax)"));
  const Builder whole = Builder().input("x", DType::int64, {3}).node("Identity", {"x"}, {"y"}).output("y");
  EXPECT_THAT(error_of([&] { make_onnx_gradients(whole.model(), parse_onnx_name("m.onnx:gradients"), 1); }),
              HasSubstr("no floating-point input or weight"));
  EXPECT_THAT(error_of([] { parse_onnx_name("m.onnx:gradient"); }), HasSubstr("not gradients"));
}

/// The weights after two steps by an optimizer's formula, from gradients at the weights before each.
std::vector<std::vector<double>> trained(OnnxOptimizer optimizer, const OnnxGradients& made) {
  std::vector<Tensor> given = made.inputs;
  std::vector<std::vector<double>> weights, first, second;
  for (std::size_t i = 0; i < made.by.size(); ++i) {
    weights.push_back(doubles(given[made.model_inputs + i]));
    first.emplace_back(weights[i].size(), 0);
    second.emplace_back(weights[i].size(), 0);
  }
  for (int step = 1; step <= 2; ++step) {
    const std::vector<Tensor> results = made.function(given);  // y, then the gradients
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::vector<double> by = doubles(results.at(1 + i));
      for (std::size_t k = 0; k < by.size(); ++k) {
        if (optimizer == OnnxOptimizer::sgd) {
          first[i][k] = 0.9 * first[i][k] + by[k];
          weights[i][k] -= 1e-6 * first[i][k];
        } else {
          first[i][k] = 0.9 * first[i][k] + 0.1 * by[k];
          second[i][k] = 0.999 * second[i][k] + 0.001 * by[k] * by[k];
          const double mean = first[i][k] / (1 - std::pow(0.9, step));
          weights[i][k] -= 1e-6 * mean / (std::sqrt(second[i][k] / (1 - std::pow(0.999, step))) + 1e-8);
        }
      }
      Tensor& weight = given[made.model_inputs + i];
      weight = Tensor::from(weights[i], weight.shape());
    }
  }
  return weights;
}

TEST(OnnxTraining, MovesTheWeightsByTheOptimizersFormula) {
  const TemporaryFolder folder("diptych-training");
  onnx::write_model(*model().model(), folder.path() / "m.onnx");
  for (const OnnxOptimizer optimizer : {OnnxOptimizer::adam, OnnxOptimizer::sgd}) {
    const std::string name =
        fmt::format("{}:batch=2,train={}", (folder.path() / "m.onnx").string(), name_of(optimizer));
    EXPECT_EQ(onnx_name(parse_onnx_name(name)), name);
    const Workload& workload = onnx_workload(name);
    EXPECT_THAT(workload.title, HasSubstr(fmt::format("training of 4 weights by {}", name_of(optimizer))));
    EXPECT_EQ(workload.unit, "training step");
    const std::unique_ptr<Program> program = workload.make(11);
    EXPECT_FALSE(program->is_forward());

    const OnnxGradients made = make_onnx_gradients(model().model(), parse_onnx_name(name), 11);
    ASSERT_THAT(made.by, ElementsAre("offset", "scale", "table", "w"));
    const std::vector<Tensor> results = program->body(program->inputs(0));
    ASSERT_THAT(results, SizeIs(1 + 4));
    double moved = 0;
    double count = 0;
    for (std::size_t i = 0; i < made.by.size(); ++i) {
      EXPECT_EQ(program->state()[i].name(), made.by[i]);
      const std::vector<double> before = doubles(made.inputs[made.model_inputs + i]);
      const std::vector<double> after = doubles(program->state()[i].value());
      for (std::size_t k = 0; k < before.size(); ++k) {
        moved += std::fabs(after[k] - before[k]);
        ++count;
      }
    }
    const auto weights = std::span(made.inputs).subspan(made.model_inputs, made.by.size());
    EXPECT_NEAR(first_move(optimizer, weights, std::span(results).last(4)), moved / count, 1e-6 * moved / count);
    program->body(program->inputs(1));
    const std::vector<std::vector<double>> wanted = trained(optimizer, made);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_THAT(doubles(program->state()[i].value()), Pointwise(IsNear(1e-12), wanted[i])) << made.by[i];
    }
  }
}

TEST(OnnxTraining, LeavesMasksAlone) {
  for (const double hidden : {-std::numeric_limits<double>::infinity(), -1e9}) {
    const Builder masked = Builder()
                               .input("x", DType::float64, {2})
                               .constant("w", random(1, {2}))
                               .constant("mask", Tensor::from(std::vector<double>{0, hidden}, {2}))
                               .node("Mul", {"x", "w"}, {"scores"})
                               .node("Add", {"scores", "mask"}, {"hidden"})
                               .node("Softmax", {"hidden"}, {"y"})
                               .output("y");
    EXPECT_THAT(make_onnx_gradients(masked.model(), parse_onnx_name("m.onnx:train=sgd"), 1).by, ElementsAre("w"));
    EXPECT_THAT(make_onnx_gradients(masked.model(), parse_onnx_name("m.onnx:gradients"), 1).by,
                ElementsAre("x", "mask", "w"));
  }
}

TEST(OnnxTraining, WithoutWeightsOrAnOptimizerIsRefused) {
  const Builder plain = Builder().input("x", DType::float32, {3}).node("Exp", {"x"}, {"y"}).output("y");
  EXPECT_THAT(error_of([&] { make_onnx_gradients(plain.model(), parse_onnx_name("m.onnx:train=sgd"), 1); }),
              HasSubstr("has no weights to train"));
  EXPECT_THAT(error_of([] { parse_onnx_name("m.onnx:train=lion"); }), HasSubstr("choose train=adam or train=sgd"));
  EXPECT_EQ(parse_onnx_name("m.onnx:train=8").lengths.at("train"), 8);  // an axis
  EXPECT_THAT(error_of([] { parse_onnx_name("m.onnx:train"); }), HasSubstr("choose train=adam or train=sgd"));
  EXPECT_THAT(error_of([] { parse_onnx_name("m.onnx:gradients,train=sgd"); }), HasSubstr("leave gradients out"));
}

}  // namespace
}  // namespace diptych::workloads
