// Models made node by node: what they compute against the engine's own ops and formulas, in both modes.

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/dispatch/op.h"
#include "tests/onnx/builder.h"
#include "tests/onnx/imported.h"

namespace diptych::onnx {
namespace {

using diptych::testing::both;
using diptych::testing::Builder;
using diptych::testing::classifier;
using diptych::testing::doubling;
using diptych::testing::graph_of;
using diptych::testing::refused_node;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using List = std::vector<std::int64_t>;

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

// x.reshape(x.shape[0], -1) as exporters write it: four nodes of shape arithmetic, none of them left in a call.
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

/// The ops of a model of x [2, 4, 3], in the order of a call.
std::vector<std::string> ops_of(ImportedModel& model) {
  std::vector<std::string> names;
  for (const graph::Node& node : graph_of(model, {zeros({2, 4, 3}, DType::float64)}).nodes) {
    names.emplace_back(node.op->name);
  }
  return names;
}

TEST(Import, AMatMulAndTheBiasAfterItAreOneLinear) {
  Rng rng(4);
  const Tensor x = rng.normal({2, 4, 3}, 0, 1, DType::float64);
  const Tensor w = rng.normal({3, 5}, 0, 1, DType::float64);
  const auto layer = [&](const Shape& bias, const std::vector<std::string>& operands) {
    return Builder()
        .input("x", DType::float64, {2, 4, 3})
        .constant("w", w)
        .constant("b", Rng(5).normal(bias, 0, 1, DType::float64))
        .node("MatMul", {"x", "w"}, {"m"})
        .node("Add", operands, {"y"});
  };
  const auto check = [&](const Builder& builder, const std::vector<std::string>& ops) {
    ImportedModel model = builder.imported();
    EXPECT_EQ(ops_of(model), ops);
    const Tensor wanted = matmul(x, w) + model.model().graph->initializers.at("b").tensor;
    EXPECT_LT(max(abs(both(model, {x}).back() - wanted)).item(), 1e-14);
  };
  check(layer({5}, {"m", "b"}).output("y"), {"linear"});
  check(layer({5}, {"b", "m"}).output("y"), {"linear"});
  // The product is read elsewhere, or what is added is not one value for each column.
  check(layer({5}, {"m", "b"}).output("m").output("y"), {"matmul", "add"});
  check(layer({5}, {"m", "b"}).node("Relu", {"m"}, {"r"}).output("r").output("y"), {"matmul", "add", "relu"});
  check(layer({1}, {"m", "b"}).output("y"), {"matmul", "add"});
  check(layer({4, 5}, {"m", "b"}).output("y"), {"matmul", "add"});
}

TEST(Import, AProductThatABodyReadsStays) {
  const auto branch = Builder().node("Identity", {"m"}, {"same"}).output("same").body();
  ImportedModel model = Builder()
                            .input("x", DType::float32, {2, 3})
                            .constant("w", full({3, 4}, 0.5))
                            .constant("b", full({4}, 0.25))
                            .constant("yes", Tensor::from({true}, {}))
                            .node("MatMul", {"x", "w"}, {"m"})
                            .node("Add", {"m", "b"}, {"y"})
                            .node("If", {"yes"}, {"z"}, {{"then_branch", branch}, {"else_branch", branch}})
                            .output("y")
                            .output("z")
                            .imported();
  const std::vector<Tensor> outputs = both(model, {full({2, 3}, 1)});
  EXPECT_EQ(outputs[0].to_vector<float>(), std::vector<float>(8, 1.75F));
  EXPECT_EQ(outputs[1].to_vector<float>(), std::vector<float>(8, 1.5F));
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

TEST(Import, AKnownExponentIsANumber) {
  const Tensor x = Rng(2).normal({3, 4});
  for (const Tensor& exponent : {Tensor::scalar(std::int64_t{2}), full({1}, 2.0), full({1, 1}, 2.0, DType::int32)}) {
    const auto call = [&](const Tensor& t) {
      ImportedModel model = Builder()
                                .input("x", DType::float32, {3, 4})
                                .constant("p", exponent)
                                .node("Pow", {"x", "p"}, {"y"})
                                .output("y")
                                .imported();
      return model.call(std::vector<Tensor>{t})[0];
    };
    EXPECT_TRUE(bitwise_equal(call(x), square(x))) << to_string(exponent);
    auto compiled = jit(call);
    EXPECT_TRUE(bitwise_equal(compiled(x), square(x))) << to_string(exponent);
    EXPECT_EQ(compiled.compiled()->graph()->nodes.size(), 1U) << graph::print(*compiled.compiled()->graph());
    EXPECT_STREQ(compiled.compiled()->graph()->nodes[0].op->name, "square");
  }
  const Tensor wider = one_output(Builder()
                                      .input("x", DType::float32, {4})
                                      .constant("p", full({1, 1}, 3.0))
                                      .node("Pow", {"x", "p"}, {"y"})
                                      .output("y"),
                                  {Rng(2).normal({4})});
  EXPECT_EQ(wider.shape(), (Shape{1, 4}));
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
  // [0, 5] in a [2, 3]: as a flat index it would be that of [1, 2].
  const Tensor x = full({2, 3}, 1);
  const Tensor wrong = Tensor::from({std::int64_t{0}, std::int64_t{5}}, {1, 2});
  ImportedModel known = Builder()
                            .input("x", DType::float32, {2, 3})
                            .constant("i", wrong)
                            .node("GatherND", {"x", "i"}, {"y"})
                            .output("y")
                            .imported();
  EXPECT_THROW(known.call(std::vector<Tensor>{x}), Error);
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

}  // namespace
}  // namespace diptych::onnx
