// Models made node by node: what they compute against the engine's own ops and formulas, in both modes, and what is
// refused with which message.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/io/onnx/operators.h"
#include "tests/onnx/builder.h"

namespace diptych::onnx {
namespace {

using diptych::testing::Builder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using List = std::vector<std::int64_t>;

/// The outputs of a model, called as it is and as a graph: with the same bits, twice each.
std::vector<Tensor> both(ImportedModel& model, const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> eager = model.call(inputs);
  graph::JitFunction compiled(
      [&](std::span<const Tensor> arguments, std::shared_ptr<void>&) { return model.call(arguments); },
      {.name = "model"});
  for (int i = 0; i < 2; ++i) {
    const std::vector<Tensor> again = model.call(inputs);
    const std::vector<Tensor> graph = compiled.call(inputs, Location::current()).outputs;
    EXPECT_EQ(graph.size(), eager.size());
    for (std::size_t k = 0; k < eager.size(); ++k) {
      EXPECT_TRUE(bitwise_equal(eager[k], again[k])) << "output " << k << ", call " << i;
      EXPECT_TRUE(bitwise_equal(eager[k], graph[k])) << "output " << k << ", graph, call " << i;
    }
  }
  return eager;
}

template <class Fn>
std::string refusal(const Fn& fn) {
  try {
    fn();
  } catch (const Unsupported& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}
template <class Fn>
std::string error_of(const Fn& fn) {
  try {
    fn();
  } catch (const Unsupported& error) {
    ADD_FAILURE() << "refused as unsupported: " << error.what();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

Builder classifier(Rng& rng) {
  return Builder()
      .input("x", DType::float32, {"batch", 6})
      .constant("w1", rng.normal({5, 6}))
      .constant("b1", rng.normal({5}))
      .constant("w2", rng.normal({5, 3}))
      .constant("b2", rng.normal({3}))
      .node("Gemm", {"x", "w1", "b1"}, {"h"}, {{"transB", AttributeValue(std::int64_t{1})}})
      .node("Relu", {"h"}, {"r"})
      .node("Gemm", {"r", "w2", "b2"}, {"y"})
      .output("y");
}

TEST(Import, AMultilayerPerceptronGivesTheEnginesBits) {
  Rng rng(1);
  const Builder builder = classifier(rng);
  ImportedModel model = builder.imported();
  const auto& weights = model.model().graph->initializers;
  for (const std::int64_t batch : {4, 7, 4}) {  // the axis is dynamic
    const Tensor x = rng.normal({batch, 6});
    const Tensor hidden = relu(linear(x, transpose(weights.at("w1").tensor), weights.at("b1").tensor));
    const Tensor wanted = linear(hidden, weights.at("w2").tensor, weights.at("b2").tensor);
    const std::vector<Tensor> outputs = both(model, {x});
    ASSERT_THAT(outputs, SizeIs(1));
    EXPECT_TRUE(bitwise_equal(outputs[0], wanted));
  }
}

TEST(Import, InputsThatDoNotFitAreRefusedByName) {
  Rng rng(1);
  ImportedModel model = classifier(rng).imported();
  EXPECT_THAT(error_of([&] { model.call({}); }), HasSubstr("takes 1 inputs, got 0"));
  const auto call = [&](const Tensor& x) { return [&model, x] { model.call(std::vector<Tensor>{x}); }; };
  EXPECT_THAT(error_of(call(full({4, 5}, 1))), AllOf(HasSubstr("\"x\""), HasSubstr("length of 6 in axis 1")));
  EXPECT_THAT(error_of(call(full({6}, 1))), HasSubstr("2 axes"));
  EXPECT_THAT(error_of(call(full({4, 6}, 1, DType::float64))), HasSubstr("f32"));
}

TEST(Import, ANamedAxisHasOneLength) {
  ImportedModel model = Builder()
                            .input("a", DType::float32, {"n"})
                            .input("b", DType::float32, {"n"})
                            .node("Add", {"a", "b"}, {"y"})
                            .output("y")
                            .imported();
  both(model, {full({3}, 1), full({3}, 2)});
  EXPECT_THAT(error_of([&] { model.call(std::vector<Tensor>{full({3}, 1), full({1}, 2)}); }), HasSubstr("\"n\""));
}

// x.reshape(x.shape[0], -1) as exporters write it: four nodes of arithmetic on shapes, none of which is left in a call.
TEST(Import, ArithmeticOnShapesIsDoneOnce) {
  ImportedModel model = Builder()
                            .input("x", DType::float32, {"batch", 3, 4})
                            .integers("zero", {0})
                            .integers("one", {1})
                            .integers("rest", {-1})
                            .node("Shape", {"x"}, {"shape"})
                            .node("Slice", {"shape", "zero", "one"}, {"first"})
                            .node("Concat", {"first", "rest"}, {"target"}, {{"axis", AttributeValue(std::int64_t{0})}})
                            .node("Reshape", {"x", "target"}, {"flat"})
                            .node("Exp", {"flat"}, {"y"})
                            .output("y")
                            .imported();
  const Tensor x = Rng(2).normal({5, 3, 4});
  const std::vector<Tensor> outputs = both(model, {x});
  EXPECT_TRUE(bitwise_equal(outputs[0], exp(reshape(x, {5, 12}))));
  const std::uint64_t before = thread_context.dispatches;
  model.call(std::vector<Tensor>{x});
  EXPECT_EQ(thread_context.dispatches - before, 2U);  // reshape and exp
}

TEST(Import, NegativeIndicesCountFromTheEndKnownOrNot) {
  const Tensor table = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {3, 2});
  ImportedModel model = Builder()
                            .input("i", DType::int64, {3})
                            .constant("table", table)
                            .integers("fixed", {-3, 2})
                            .node("Gather", {"table", "i"}, {"a"})
                            .node("Gather", {"table", "fixed"}, {"b"})
                            .output("a")
                            .output("b")
                            .imported();
  const std::vector<Tensor> outputs =
      both(model, {Tensor::from({std::int64_t{-1}, std::int64_t{0}, std::int64_t{-2}}, {3})});
  EXPECT_THAT(outputs[0].to_vector<float>(), ElementsAre(5, 6, 1, 2, 3, 4));
  EXPECT_THAT(outputs[1].to_vector<float>(), ElementsAre(1, 2, 5, 6));
}

TEST(Import, GradientsReachInputsAndInitializers) {
  Rng rng(3);
  const Tensor w = rng.normal({3, 2}, 0, 1, DType::float64);
  Builder builder;
  builder.input("x", DType::float64, {4, 3})
      .constant("w", w)
      .node("MatMul", {"x", "w"}, {"h"})
      .node("Tanh", {"h"}, {"t"})
      .node("ReduceSum", {"t"}, {"y"}, {{"keepdims", AttributeValue(std::int64_t{0})}})
      .output("y");
  ImportedModel model = builder.imported({.bound = {}, .arguments = {"w"}});
  ASSERT_THAT(model.arguments(), SizeIs(1));
  const Tensor x = rng.normal({4, 3}, 0, 1, DType::float64);
  const auto loss = [&](const Tensor& a, const Tensor& b) { return model.call(std::vector<Tensor>{a, b})[0]; };
  const std::vector<Tensor> gradients = grad(loss, {0, 1})(x, w);
  // d/dw of sum(tanh(x w)) is x' (1 - tanh^2), and d/dx is (1 - tanh^2) w'.
  const Tensor slope = 1.0 - square(tanh(matmul(x, w)));
  EXPECT_LT(max(abs(gradients[0] - matmul(slope, transpose(w)))).item(), 1e-12);
  EXPECT_LT(max(abs(gradients[1] - matmul(transpose(x), slope))).item(), 1e-12);
}

std::shared_ptr<const Graph> adds(double number) {
  return Builder()
      .constant("number", full({}, number))
      .node("Add", {"x", "number"}, {"sum"})  // x is captured
      .output("sum")
      .body();
}

TEST(Import, IfTakesABranchNowOrInTheGraph) {
  Builder known;
  known.input("x", DType::float32, {2})
      .constant("yes", Tensor::from({true}, {}))
      .node("If", {"yes"}, {"y"}, {{"then_branch", AttributeValue(adds(1))}, {"else_branch", AttributeValue(adds(2))}})
      .output("y");
  ImportedModel first = known.imported();
  EXPECT_THAT(both(first, {full({2}, 10)})[0].to_vector<float>(), ElementsAre(11, 11));

  Builder open;
  open.input("x", DType::float32, {2})
      .input("flag", DType::boolean, {})
      .node("If", {"flag"}, {"y"}, {{"then_branch", AttributeValue(adds(1))}, {"else_branch", AttributeValue(adds(2))}})
      .output("y");
  ImportedModel second = open.imported();
  EXPECT_THAT(both(second, {full({2}, 10), Tensor::from({true}, {})})[0].to_vector<float>(), ElementsAre(11, 11));
  EXPECT_THAT(both(second, {full({2}, 10), Tensor::from({false}, {})})[0].to_vector<float>(), ElementsAre(12, 12));
}

/// iteration, condition, v -> condition, v + x [, v]
Builder doubling(bool collects) {
  Builder body;
  body.input("i", DType::int64, {}).input("go", DType::boolean, {}).input("v", DType::float32, {2});
  body.node("Identity", {"go"}, {"still"}).node("Add", {"v", "x"}, {"next"});
  body.output("still").output("next");
  if (collects) {
    body.node("Identity", {"v"}, {"row"}).output("row");
  }
  return body;
}

TEST(Import, LoopsOfKnownLengthAreUnrolledAndCollect) {
  Builder builder;
  builder.input("x", DType::float32, {2})
      .constant("trips", Tensor::scalar(std::int64_t{3}))
      .constant("yes", Tensor::from({true}, {}))
      .node("Loop", {"trips", "yes", "x"}, {"last", "rows"}, {{"body", AttributeValue(doubling(true).body())}})
      .output("last")
      .output("rows");
  ImportedModel model = builder.imported();
  const std::vector<Tensor> outputs = both(model, {Tensor::from({1.0F, 2.0F}, {2})});
  EXPECT_THAT(outputs[0].to_vector<float>(), ElementsAre(4, 8));
  EXPECT_EQ(outputs[1].shape(), (Shape{3, 2}));
  EXPECT_THAT(outputs[1].to_vector<float>(), ElementsAre(1, 2, 2, 4, 3, 6));
}

TEST(Import, LoopsWhoseLengthIsAnInputBecomeAWhileLoop) {
  Builder builder;
  builder.input("x", DType::float32, {2})
      .input("trips", DType::int64, {})
      .constant("yes", Tensor::from({true}, {}))
      .node("Loop", {"trips", "yes", "x"}, {"last"}, {{"body", AttributeValue(doubling(false).body())}})
      .output("last");
  ImportedModel model = builder.imported();
  const Tensor x = Tensor::from({1.0F, 2.0F}, {2});
  EXPECT_THAT(both(model, {x, Tensor::scalar(std::int64_t{4})})[0].to_vector<float>(), ElementsAre(5, 10));
  EXPECT_THAT(both(model, {x, Tensor::scalar(std::int64_t{0})})[0].to_vector<float>(), ElementsAre(1, 2));
}

TEST(Import, EndlessLoopsAreRefused) {
  Builder builder;
  builder.input("x", DType::float32, {2})
      .constant("trips", Tensor::scalar(std::numeric_limits<std::int64_t>::max()))
      .constant("yes", Tensor::from({true}, {}))
      .node("Loop", {"trips", "yes", "x"}, {"last"}, {{"body", AttributeValue(doubling(false).body())}})
      .output("last");
  ImportedModel model = builder.imported();
  EXPECT_THAT(refusal([&] { model.call(std::vector<Tensor>{full({2}, 1)}); }), HasSubstr("more than"));
}

TEST(Import, ScanVisitsRowsFromEitherEnd) {
  Builder body;
  body.input("sum", DType::float32, {2}).input("row", DType::float32, {2});
  body.node("Add", {"sum", "row"}, {"next"}).node("Identity", {"next"}, {"kept"}).output("next").output("kept");
  Builder builder;
  builder.input("rows", DType::float32, {3, 2})
      .constant("zero", full({2}, 0))
      .node("Scan", {"zero", "rows"}, {"last", "sums"},
            {{"body", AttributeValue(body.body())},
             {"num_scan_inputs", AttributeValue(std::int64_t{1})},
             {"scan_input_directions", AttributeValue(List{1})}})
      .output("last")
      .output("sums");
  ImportedModel model = builder.imported();
  const std::vector<Tensor> outputs = both(model, {Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {3, 2})});
  EXPECT_THAT(outputs[0].to_vector<float>(), ElementsAre(9, 12));
  EXPECT_THAT(outputs[1].to_vector<float>(), ElementsAre(5, 6, 8, 10, 9, 12));
}

/// The text for a model of one node that can't run.
std::string refused_node(const std::string& op, std::map<std::string, AttributeValue> attributes = {},
                         std::int64_t opset = 17, const std::string& domain = "") {
  const Builder builder = Builder(opset)
                              .input("x", DType::float32, {2, 2})
                              .node(op, {"x"}, {"y"}, std::move(attributes), domain)
                              .output("y");
  return refusal([&] { builder.imported(); });
}

TEST(Import, WhatIsNotSupportedIsNamedBeforeAnythingRuns) {
  EXPECT_THAT(refused_node("Det"),
              AllOf(HasSubstr("\"Det_0\""), HasSubstr("Det, opset 17"), HasSubstr("no such operator")));
  EXPECT_THAT(refused_node("FusedGemm", {}, 17, "com.microsoft"),
              AllOf(HasSubstr("com.microsoft::FusedGemm"), HasSubstr("ONNX's own operators")));
  EXPECT_THAT(refused_node("Relu", {{"slope", AttributeValue(0.5)}}), HasSubstr("attribute \"slope\""));
  EXPECT_THAT(refused_node("Relu", {}, kNewestOpset + 1), HasSubstr("supported from opset 1 to"));
  EXPECT_THAT(refused_node("Attention", {}, 17), HasSubstr("supported from opset 23"));
  EXPECT_THAT(refused_node("Cast", {{"to", AttributeValue(std::int64_t{10})}}), HasSubstr("f16"));
  EXPECT_THAT(refused_node("Gelu", {{"approximate", AttributeValue(std::string("sigmoid"))}}, 20), HasSubstr("tanh"));
  EXPECT_THAT(refused_node("Gelu"), HasSubstr("supported from opset 20"));
}

TEST(Import, AllProblemsAreListedAtOnce) {
  const Builder builder = Builder()
                              .input("x", DType::float32, {2})
                              .node("Det", {"x"}, {"a"})
                              .node("Relu", {"a"}, {"b"})
                              .node("NonMaxSuppression", {"b"}, {"y"})
                              .output("y");
  EXPECT_THAT(refusal([&] { builder.imported(); }), AllOf(HasSubstr("Det"), HasSubstr("NonMaxSuppression")));
}

TEST(Import, TypesThatTheEngineDoesNotHaveAreRefused) {
  const Builder builder = Builder().foreign_input("x", "f16 tensor").node("Relu", {"x"}, {"y"}).output("y");
  EXPECT_THAT(refusal([&] { builder.imported(); }), AllOf(HasSubstr("\"x\" is a f16 tensor"), HasSubstr("Relu")));
}

TEST(Import, ShapesThatDependOnInputsNeedThemBound) {
  const Builder builder = Builder()
                              .input("x", DType::float32, {6})
                              .input("shape", DType::int64, {2})
                              .node("Reshape", {"x", "shape"}, {"y"})
                              .output("y");
  EXPECT_THAT(shape_inputs(*builder.model()), ElementsAre("shape"));
  const Tensor shape = Tensor::from({std::int64_t{2}, std::int64_t{3}}, {2});
  ImportedModel open = builder.imported();
  EXPECT_THAT(refusal([&] {
                open.call(std::vector<Tensor>{full({6}, 1), shape});
              }),
              AllOf(HasSubstr("Reshape"), HasSubstr("input 1")));
  ImportedModel bound = builder.imported({.bound = {{"shape", shape}}, .arguments = {}});
  EXPECT_EQ(both(bound, {full({6}, 1)})[0].shape(), (Shape{2, 3}));
}

TEST(Import, WhatIsNoGraphIsAnError) {
  EXPECT_THAT(
      error_of([] { Builder().node("Relu", {"later"}, {"y"}).node("Relu", {"y"}, {"later"}).output("y").imported(); }),
      HasSubstr("\"later\", which nothing before it makes"));
  EXPECT_THAT(
      error_of([] {
        Builder().input("x", DType::float32, {2}).node("Relu", {"x"}, {"y"}).node("Exp", {"x"}, {"y"}).imported();
      }),
      HasSubstr("makes \"y\" twice"));
  EXPECT_THAT(error_of([] { Builder().output("nothing").imported(); }), HasSubstr("\"nothing\""));
  EXPECT_THAT(error_of([] {
                Builder()
                    .input("x", DType::float32, {2})
                    .node("LeakyRelu", {"x"}, {"y"}, {{"alpha", AttributeValue(std::string("steep"))}})
                    .output("y")
                    .imported();
              }),
              HasSubstr("\"alpha\" is no float"));
  EXPECT_THAT(error_of([] { Builder().node("Add", {}, {"y"}).output("y").imported(); }), HasSubstr("0 inputs"));
}

Tensor one_output(const Builder& builder, const std::vector<Tensor>& inputs) {
  ImportedModel model = builder.imported();
  return both(model, inputs)[0];
}

TEST(Import, HyperbolicFunctionsHoldOverTheirWholeRange) {
  struct Case {
    const char* op;
    double (*formula)(double);
    std::vector<double> at;
  };
  const std::vector<double> all{-1e30, -1e10, -88.5, -30, -20.5, -17.5, -12,  -1,  -1e-6,
                                0,     1e-6,  1,     12,  20.5,  88.5,  1e10, 1e30};
  const std::vector<double> up_to_overflow{-89.3, -88.5, -30, -17.5, -12, -1, -1e-6, 0, 1e-6, 1, 12, 30, 88.5, 89.3};
  for (const auto& [op, formula, at] :
       {Case{"Sinh", std::sinh, up_to_overflow}, Case{"Cosh", std::cosh, up_to_overflow},
        Case{"Asinh", std::asinh, all}, Case{"Acosh", std::acosh, {1, 1.0001, 2, 1e8, 1e10, 1e30}},
        Case{"Atanh", std::atanh, {-1, -0.9999999, -0.5, -1e-6, 0, 1e-6, 0.5, 0.9999999, 1}}}) {
    const std::vector<float> points(at.begin(), at.end());
    const auto count = static_cast<std::int64_t>(points.size());
    const Tensor x = Tensor::from(points, {count});
    const Tensor y = one_output(Builder().input("x", DType::float32, {count}).node(op, {"x"}, {"y"}).output("y"), {x});
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double wanted = formula(points[i]);
      const double got = y.to_vector<double>()[i];
      if (std::isinf(wanted)) {
        EXPECT_EQ(got, wanted) << op << " of " << points[i];
      } else {
        EXPECT_NEAR(got, wanted, 2e-6 * std::fabs(wanted)) << op << " of " << points[i];
      }
    }
  }
}

TEST(Import, OddFunctionsHaveTheirSlopeAtZero) {
  for (const char* op : {"Sinh", "Asinh", "Atanh"}) {
    ImportedModel model = Builder().input("x", DType::float32, {1}).node(op, {"x"}, {"y"}).output("y").imported();
    const Tensor slope =
        grad([&](const Tensor& x) { return sum(model.call(std::vector<Tensor>{x})[0]); })(full({1}, 0));
    EXPECT_FLOAT_EQ(static_cast<float>(slope.item()), 1) << op;
  }
}

TEST(Import, HyperbolicFunctionsHaveOneSlopeWhereTheirRangesMeet) {
  ImportedModel model = Builder().input("x", DType::float64, {1}).node("Sinh", {"x"}, {"y"}).output("y").imported();
  const Tensor slope =
      grad([&](const Tensor& x) { return sum(model.call(std::vector<Tensor>{x})[0]); })(full({1}, 20, DType::float64));
  EXPECT_NEAR(slope.item() / std::cosh(20.0), 1, 1e-12);
}

TEST(Import, IntegersStayExact) {
  const Tensor x = Tensor::from({std::int64_t{16777217}, std::int64_t{16777217}}, {2});
  const Tensor mean = one_output(Builder()
                                     .input("x", DType::int64, {2})
                                     .node("ReduceMean", {"x"}, {"y"}, {{"keepdims", std::int64_t{0}}})
                                     .output("y"),
                                 {x});
  EXPECT_EQ(mean.to_vector<std::int64_t>()[0], 16777217);
  const Tensor power = one_output(Builder()
                                      .input("x", DType::int64, {2})
                                      .constant("p", full({}, 1, DType::float32))
                                      .node("Pow", {"x", "p"}, {"y"})
                                      .output("y"),
                                  {x});
  EXPECT_EQ(power.to_vector<std::int64_t>()[0], 16777217);
  const Tensor large = Tensor::from({(std::int64_t{1} << 60) + 1}, {1});
  const Tensor clipped = one_output(Builder()
                                        .input("x", DType::int64, {1})
                                        .constant("low", Tensor::scalar((std::int64_t{1} << 60) + 3))
                                        .node("Clip", {"x", "low"}, {"y"})
                                        .output("y"),
                                    {large});
  EXPECT_EQ(clipped.to_vector<std::int64_t>()[0], (std::int64_t{1} << 60) + 3);
  const Tensor least = Tensor::from({std::numeric_limits<std::int32_t>::min()}, {1});
  const Tensor rest = one_output(Builder()
                                     .input("x", DType::int32, {1})
                                     .constant("b", Tensor::from({3}, {1}))
                                     .node("Mod", {"x", "b"}, {"y"}, {{"fmod", std::int64_t{1}}})
                                     .output("y"),
                                 {least});
  EXPECT_EQ(rest.to_vector<std::int32_t>()[0], std::numeric_limits<std::int32_t>::min() % 3);
  const Tensor total = one_output(Builder()
                                      .input("x", DType::int32, {1})
                                      .node("Einsum", {"x"}, {"y"}, {{"equation", std::string("i->")}})
                                      .output("y"),
                                  {least});
  EXPECT_EQ(total.dtype(), DType::int32);
}

TEST(Import, PlacesOutsideOfTheirAxisAreNoOtherPlaces) {
  // [0, 5] of a [2, 3]: as one number it would be that of [1, 2].
  const Tensor x = full({2, 3}, 1);
  const Tensor wrong = Tensor::from({std::int64_t{0}, std::int64_t{5}}, {1, 2});
  ImportedModel known = Builder()
                            .input("x", DType::float32, {2, 3})
                            .constant("i", wrong)
                            .node("GatherND", {"x", "i"}, {"y"})
                            .output("y")
                            .imported();
  EXPECT_THROW(known.call(std::vector<Tensor>{x}), ShapeError);
  EXPECT_EQ(one_output(Builder()
                           .input("x", DType::float32, {2, 3})
                           .constant("i", Tensor::from({-1, 2}, {1, 2}))  // i32
                           .node("GatherND", {"x", "i"}, {"y"})
                           .output("y"),
                       {Tensor::from({0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 5.0F}, {2, 3})})
                .item(),
            5);
  EXPECT_EQ(one_output(Builder()
                           .input("x", DType::float32, {2, 3})
                           .constant("i", Tensor::from({-1}, {1}))
                           .node("Gather", {"x", "i"}, {"y"}, {{"axis", std::int64_t{1}}})
                           .output("y"),
                       {x})
                .shape(),
            (Shape{2, 1}));
  ImportedModel given = Builder()
                            .input("x", DType::float32, {2, 3})
                            .input("i", DType::int64, {1, 2})
                            .node("GatherND", {"x", "i"}, {"y"})
                            .output("y")
                            .imported();
  EXPECT_THROW(given.call(std::vector<Tensor>{x, wrong}), Error);
  const Tensor right = Tensor::from({std::int64_t{-1}, std::int64_t{2}}, {1, 2});
  EXPECT_EQ(given.call(std::vector<Tensor>{x, right})[0].item(), 1);
}

TEST(Import, ResizePlacesPointsSymmetricallyAroundTheMiddle) {
  // Opset 19: 5 points at a scale of 0.5 are 2, which lie as the rounded length says.
  const double adjustment = 2 / (0.5 * 5);
  const double offset = 5.0 / 2 * (1 - adjustment);
  const Tensor y = one_output(Builder(19)
                                  .input("x", DType::float32, {5})
                                  .constant("scales", full({1}, 0.5))
                                  .node("Resize", {"x", "", "scales"}, {"y"},
                                        {{"mode", std::string("linear")},
                                         {"coordinate_transformation_mode", std::string("half_pixel_symmetric")}})
                                  .output("y"),
                              {Tensor::from({0.0F, 1.0F, 2.0F, 3.0F, 4.0F}, {5})});
  ASSERT_EQ(y.shape(), (Shape{2}));
  EXPECT_FLOAT_EQ(y.to_vector<float>()[0], static_cast<float>(offset + 0.5 / 0.5 - 0.5));
  EXPECT_FLOAT_EQ(y.to_vector<float>()[1], static_cast<float>(offset + 1.5 / 0.5 - 0.5));
  EXPECT_THAT(refused_node("Resize", {{"mode", AttributeValue(std::string("foo"))}}), HasSubstr("mode \"foo\""));
  EXPECT_THAT(refused_node("Resize", {{"coordinate_transformation_mode", AttributeValue(std::string("foo"))}}),
              HasSubstr("coordinate_transformation_mode"));
  EXPECT_THAT(refused_node("Resize", {{"nearest_mode", AttributeValue(std::string("foo"))}}),
              HasSubstr("nearest_mode"));
}

TEST(Import, WhatWouldCrashOrHangIsAnError) {
  EXPECT_THAT(error_of([] { Builder().input("x", DType::float32, {2}).node("Relu", {"x"}, {}).imported(); }),
              HasSubstr("no outputs"));
  ImportedModel spare =
      Builder().input("x", DType::float32, {2}).node("Relu", {"x"}, {"y", "z"}).output("z").imported();
  EXPECT_THAT(refusal([&] { spare.call(std::vector<Tensor>{full({2}, 1)}); }), HasSubstr("output 1"));
  EXPECT_THAT(error_of([] {
                Builder(18)
                    .input("x", DType::float32, {2})
                    .node("Split", {"x"}, {"a", "b"}, {{"num_outputs", std::int64_t{1} << 62}})
                    .output("a")
                    .imported();
              }),
              HasSubstr("num_outputs"));
  ImportedModel turned = Builder()
                             .input("x", DType::float32, {1, 1, 3, 3})
                             .constant("w", full({1, 1, 2, 2}, 1))
                             .node("ConvTranspose", {"x", "w"}, {"y"}, {{"output_shape", List{7}}})
                             .output("y")
                             .imported();
  EXPECT_THROW(turned.call(std::vector<Tensor>{full({1, 1, 3, 3}, 1)}), ShapeError);
  ImportedModel far = Builder()
                          .input("x", DType::float32, {1, 1, 3, 3})
                          .constant("w", full({1, 1, 2, 2}, 1))
                          .node("Conv", {"x", "w"}, {"y"},
                                {{"auto_pad", std::string("SAME_UPPER")}, {"strides", List{std::int64_t{1} << 62, 1}}})
                          .output("y")
                          .imported();
  EXPECT_THROW(far.call(std::vector<Tensor>{full({1, 1, 3, 3}, 1)}), ShapeError);
  // A loop without nodes that never ends.
  const auto body = Builder()
                        .input("i", DType::int64, {})
                        .input("go", DType::boolean, {})
                        .input("v", DType::float32, {2})
                        .output("go")
                        .output("v")
                        .body();
  ImportedModel endless = Builder()
                              .input("x", DType::float32, {2})
                              .constant("trips", Tensor::scalar(std::numeric_limits<std::int64_t>::max()))
                              .node("Loop", {"trips", "", "x"}, {"y"}, {{"body", body}})
                              .output("y")
                              .imported();
  EXPECT_THAT(refusal([&] { endless.call(std::vector<Tensor>{full({2}, 1)}); }), HasSubstr("more than"));
}

TEST(Import, AnEndlessLoopInsideOfALoopOverElementsIsRefused) {
  const auto inner = Builder()
                         .input("j", DType::int64, {})
                         .input("go", DType::boolean, {})
                         .input("w", DType::int64, {})
                         .node("Identity", {"w"}, {"same"})
                         .output("go")
                         .output("same")
                         .body();
  const auto outer = Builder()
                         .input("i", DType::int64, {})
                         .input("go", DType::boolean, {})
                         .input("v", DType::int64, {})
                         .constant("far", Tensor::scalar(std::numeric_limits<std::int64_t>::max()))
                         .node("Loop", {"far", "", "v"}, {"next"}, {{"body", inner}})
                         .output("go")
                         .output("next")
                         .body();
  ImportedModel model = Builder()
                            .input("trips", DType::int64, {})
                            .constant("zero", Tensor::scalar(std::int64_t{0}))
                            .node("Loop", {"trips", "", "zero"}, {"y"}, {{"body", outer}})
                            .output("y")
                            .imported();
  EXPECT_THAT(refusal([&] { model.call(std::vector<Tensor>{Tensor::scalar(std::int64_t{2})}); }),
              HasSubstr("more than"));
}

TEST(Import, RowsThatAreKnownStayKnown) {
  const auto body = Builder()
                        .input("i", DType::int64, {})
                        .input("go", DType::boolean, {})
                        .input("v", DType::float32, {2})
                        .node("Add", {"v", "x"}, {"next"})
                        .node("Identity", {"i"}, {"row"})
                        .output("go")
                        .output("next")
                        .output("row")
                        .body();
  ImportedModel model = Builder()
                            .input("x", DType::float32, {2})
                            .constant("trips", Tensor::scalar(std::int64_t{3}))
                            .node("Loop", {"trips", "", "x"}, {"y", "rows"}, {{"body", body}})
                            .node("Cast", {"rows"}, {"numbers"}, {{"to", std::int64_t{1}}})
                            .output("y")
                            .output("numbers")
                            .imported();
  const std::vector<Tensor> results = both(model, {full({2}, 1)});
  EXPECT_THAT(results[0].to_vector<float>(), ElementsAre(4, 4));
  EXPECT_THAT(results[1].to_vector<float>(), ElementsAre(0, 1, 2));
}

TEST(Import, BroadcastsThatNobodyCanHoldAreRefused) {
  ImportedModel model = Builder()
                            .input("x", DType::float32, {1, 1})
                            .integers("long", {std::int64_t{1} << 31, 1})
                            .node("Expand", {"x", "long"}, {"a"})
                            .node("Transpose", {"a"}, {"b"})
                            .node("Add", {"a", "b"}, {"y"})
                            .output("y")
                            .imported();
  EXPECT_THROW(model.call(std::vector<Tensor>{full({1, 1}, 1)}), ShapeError);
}

TEST(Import, LoopsOverElementsRunAsLongAsTheModelSays) {
  const auto body = Builder()
                        .input("i", DType::int64, {})
                        .input("go", DType::boolean, {})
                        .input("v", DType::int64, {})
                        .constant("one", Tensor::scalar(std::int64_t{1}))
                        .node("Add", {"v", "one"}, {"a"})
                        .node("Identity", {"a"}, {"next"})
                        .output("go")
                        .output("next")
                        .body();
  ImportedModel model = Builder()
                            .input("trips", DType::int64, {})
                            .constant("zero", Tensor::scalar(std::int64_t{0}))
                            .node("Loop", {"trips", "", "zero"}, {"y"}, {{"body", body}})
                            .output("y")
                            .imported();
  EXPECT_EQ(model.call(std::vector<Tensor>{Tensor::scalar(std::int64_t{600'000})})[0].item(), 600'000);
}

TEST(Import, WhatIsRefusedForItsTypesIsRefusedBeforeAnythingRuns) {
  // The first node would fail on its elements if it ran.
  ImportedModel model = Builder()
                            .input("x", DType::float32, {2})
                            .input("i", DType::int64, {1})
                            .node("Gather", {"x", "i"}, {"picked"})
                            .node("Unsqueeze", {"picked", "axes"}, {"cube"})
                            .integers("axes", {0, 1, 3, 4})
                            .constant("w", full({1, 1, 1, 1, 1}, 1))
                            .node("Conv", {"cube", "w"}, {"y"})
                            .output("y")
                            .imported();
  EXPECT_THAT(refusal([&] {
                model.call(std::vector<Tensor>{full({2}, 1), Tensor::from({std::int64_t{99}}, {1})});
              }),
              HasSubstr("spatial axes"));
}

TEST(Import, BoundInputsAreAsTheModelSays) {
  const Builder builder = Builder().input("x", DType::float32, {2}).node("Relu", {"x"}, {"y"}).output("y");
  EXPECT_THROW(builder.imported({.bound = {{"x", full({2}, 1, DType::float64)}}, .arguments = {}}), DTypeError);
  EXPECT_THROW(builder.imported({.bound = {{"x", full({3}, 1)}}, .arguments = {}}), ShapeError);
}

TEST(Import, AbsurdSizesAreRefusedBeforeTheyAreTried) {
  for (const List& lengths : {List{1 << 30, 1 << 30}, List{-1}, List{std::numeric_limits<std::int64_t>::max(), 2}}) {
    ImportedModel model =
        Builder().integers("shape", lengths).node("ConstantOfShape", {"shape"}, {"y"}).output("y").imported();
    EXPECT_THROW(model.call({}), ShapeError) << lengths[0];
  }
}

TEST(OnnxImport, WhatTheMachineHasNoMemoryForIsRefusedBeforeItRuns) {
  struct Limit {
    double before = memory_limit();
    Limit() { set_memory_limit(1 << 20); }
    ~Limit() { memory_limit() = before; }
  } limit;
  const auto expanded = [](std::int64_t length) {
    return Builder().input("x", DType::float32, {1}).integers("shape", {length}).node("Expand", {"x", "shape"}, {"a"});
  };
  const std::vector<Tensor> x = {full({1}, 2)};
  EXPECT_EQ(expanded(90'000).node("Neg", {"a"}, {"y"}).output("y").imported().call(x)[0].numel(), 90'000);
  ImportedModel alone = expanded(200'000).output("a").imported();
  EXPECT_THAT(error_of([&] { alone.call(x); }), AllOf(HasSubstr("Expand"), HasSubstr("half of")));
  ImportedModel together = expanded(90'000)
                               .node("Neg", {"a"}, {"b"})
                               .node("Exp", {"b"}, {"c"})
                               .node("Sum", {"a", "b", "c"}, {"y"})
                               .output("y")
                               .imported();
  EXPECT_THAT(error_of([&] { together.call(x); }), AllOf(HasSubstr("Exp"), HasSubstr("at one time")));
}

TEST(OnnxImport, AnAxisOfAbsurdLengthIsRefusedEvenWithoutElements) {
  ImportedModel model =
      Builder()
          .input("x", DType::float32, {1, 2, 3, 3})
          .constant("scales", Tensor::from({1.0F, 0.0625F, 2.5e10F, 2.0F}, {4}))
          .node("Resize", {"x", "", "scales"}, {"y"}, {{"mode", AttributeValue(std::string("cubic"))}})
          .output("y")
          .imported();
  EXPECT_THAT(error_of([&] {
                model.call(std::vector<Tensor>{full({1, 2, 3, 3}, 1)});
              }),
              AllOf(HasSubstr("Resize"), HasSubstr("half of")));
}

}  // namespace
}  // namespace diptych::onnx
