// Loops whose condition comes from elements, loops of no iterations, and what they collect: ONNX's text of Loop and
// Scan in plain arithmetic.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/onnx/imported.h"
#include "tests/onnx/one_node.h"

namespace diptych::onnx {
namespace {

using diptych::testing::both;
using diptych::testing::Builder;
using diptych::testing::doubles;
using diptych::testing::expect_gradients;
using diptych::testing::number;
using diptych::testing::refusal;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor two_numbers(double a, double b, DType dtype = DType::float32) { return cast(Tensor::from({a, b}, {2}), dtype); }

/// v -> 2 v, as long as its largest element stays below 20; collects v.
std::shared_ptr<const Graph> doubled_below_20(bool collects, DType dtype = DType::float32) {
  Builder body;
  body.input("i", DType::int64, {}).input("go", DType::boolean, {}).input("v", dtype, {2});
  body.constant("limit", full({}, 20, dtype));
  body.node("Add", {"v", "v"}, {"next"}).node("ReduceMax", {"next"}, {"most"}, {{"keepdims", number(0)}});
  body.node("Less", {"most", "limit"}, {"on"}).output("on").output("next");
  if (collects) {
    body.node("Identity", {"v"}, {"row"}).output("row");
  }
  return body.body();
}

Builder do_while(std::int64_t trips, bool collects, DType dtype = DType::float32) {
  Builder builder;
  builder.input("x", dtype, {2}).constant("trips", Tensor::scalar(trips)).constant("yes", Tensor::from({true}, {}));
  std::vector<std::string> outputs{"last"};
  builder.output("last");
  if (collects) {
    outputs.emplace_back("rows");
    builder.output("rows");
  }
  return builder.node("Loop", {"trips", "yes", "x"}, outputs, {{"body", doubled_below_20(collects, dtype)}});
}

TEST(Loops, ADoWhileEndsWhereItsElementsSay) {
  ImportedModel model = do_while(10, false).imported();
  EXPECT_THAT(doubles(both(model, {two_numbers(1, 3)})[0]), ElementsAre(8, 24));
  EXPECT_THAT(doubles(both(model, {two_numbers(30, 1)})[0]), ElementsAre(60, 2));  // once at least
  ImportedModel bounded = do_while(2, false).imported();
  EXPECT_THAT(doubles(both(bounded, {two_numbers(1, 3)})[0]), ElementsAre(4, 12));
  ImportedModel once = do_while(1, false).imported();
  EXPECT_THAT(doubles(both(once, {two_numbers(1, 3)})[0]), ElementsAre(2, 6));
  ImportedModel never = do_while(0, false).imported();
  EXPECT_THAT(doubles(both(never, {two_numbers(1, 3)})[0]), ElementsAre(1, 3));
}

TEST(Loops, GradientsGoThroughADoWhileWithATripCount) {
  expect_gradients(do_while(10, false, DType::float64), {two_numbers(1.25, 3.5, DType::float64)});
}

TEST(Loops, RowsAreCollectedIfWhatDecidesIsKnown) {
  const Builder builder = do_while(10, true);
  EXPECT_THAT(shape_inputs(*builder.model()), ElementsAre("x"));
  ImportedModel open = builder.imported();
  EXPECT_THAT(refusal([&] { open.call(std::vector<Tensor>{two_numbers(1, 3)}); }),
              AllOf(HasSubstr("Loop"), HasSubstr("input 2")));
  ImportedModel bound = builder.imported({.bound = {{"x", two_numbers(1, 3)}}, .arguments = {}});
  const std::vector<Tensor> outputs = both(bound, {});
  EXPECT_EQ(outputs[1].shape(), (Shape{3, 2}));
  EXPECT_THAT(doubles(outputs[1]), ElementsAre(1, 3, 2, 6, 4, 12));
  ImportedModel stopped = do_while(2, true).imported({.bound = {{"x", two_numbers(1, 3)}}, .arguments = {}});
  EXPECT_EQ(both(stopped, {})[1].shape(), (Shape{2, 2}));
}

TEST(Loops, OfNoIterationsCollectNoRowsOfTheBodysShape) {
  for (const bool has_trips : {true, false}) {
    Builder body;
    body.input("i", DType::int64, {}).input("go", DType::boolean, {}).input("v", DType::float32, {2});
    body.node("Identity", {"go"}, {"still"}).node("Add", {"v", "x"}, {"next"});
    body.node("Unsqueeze", {"next", "first"}, {"row"}).integers("first", {0});
    body.output("still").output("next").output("row");
    Builder builder;
    builder.input("x", DType::float32, {2})
        .constant("none", Tensor::scalar(std::int64_t{0}))
        .constant("no", Tensor::from({false}, {}))
        .node("Loop", {has_trips ? "none" : "", has_trips ? "" : "no", "x"}, {"last", "rows"}, {{"body", body.body()}})
        .output("last")
        .output("rows");
    ImportedModel model = builder.imported();
    const std::vector<Tensor> outputs = both(model, {two_numbers(1, 2)});
    EXPECT_THAT(doubles(outputs[0]), ElementsAre(1, 2));
    EXPECT_EQ(outputs[1].type(), (TensorType{DType::float32, {0, 1, 2}}));
  }
}

TEST(Loops, AScanOfNoRowsCollectsNone) {
  Builder body;
  body.input("sum", DType::float64, {2}).input("row", DType::float32, {2});
  body.node("Cast", {"row"}, {"wide"}, {{"to", number(11)}}).node("Add", {"sum", "wide"}, {"next"});
  body.node("Identity", {"wide"}, {"kept"}).output("next").output("kept");
  ImportedModel model = Builder()
                            .input("sum", DType::float64, {2})
                            .input("rows", DType::float32, {"n", 2})
                            .node("Scan", {"sum", "rows"}, {"last", "all"},
                                  {{"body", body.body()},
                                   {"num_scan_inputs", number(1)},
                                   {"scan_output_axes", std::vector<std::int64_t>{-1}}})
                            .output("last")
                            .output("all")
                            .imported();
  const std::vector<Tensor> outputs = both(model, {two_numbers(1, 2, DType::float64), full({0, 2}, 0)});
  EXPECT_THAT(doubles(outputs[0]), ElementsAre(1, 2));
  EXPECT_EQ(outputs[1].type(), (TensorType{DType::float64, {2, 0}}));
}

// Exporters of lists write a sequence that a loop carries.
TEST(Loops, CarrySequencesOverAKnownNumberOfIterations) {
  Builder body;
  body.input("i", DType::int64, {}).input("go", DType::boolean, {}).foreign_input("list", "sequence");
  body.node("Identity", {"go"}, {"still"}).node("Cast", {"i"}, {"number"}, {{"to", number(1)}});
  body.node("Mul", {"x", "number"}, {"scaled"}).node("SequenceInsert", {"list", "scaled"}, {"longer"});
  body.output("still").output("longer");
  ImportedModel model = Builder()
                            .input("x", DType::float32, {2})
                            .constant("trips", Tensor::scalar(std::int64_t{3}))
                            .node("SequenceEmpty", {}, {"nothing"})
                            .node("Loop", {"trips", "", "nothing"}, {"all"}, {{"body", body.body()}})
                            .node("ConcatFromSequence", {"all"}, {"y"}, {{"axis", number(0)}})
                            .output("y")
                            .imported();
  EXPECT_THAT(doubles(both(model, {two_numbers(1, 2)})[0]), ElementsAre(0, 0, 1, 2, 2, 4));
}

// A call passes and gets the tensors of a sequence or an optional one by one.
TEST(Loops, SequencesAndOptionalsAsInputsAndOutputs) {
  const Builder builder = Builder(18)
                              .foreign_input("list", "sequence")
                              .input("x", DType::float32, {2})
                              .foreign_input("maybe", "optional")
                              .node("SequenceInsert", {"list", "x", "first"}, {"longer"})
                              .constant("first", Tensor::scalar(std::int64_t{0}))
                              .node("OptionalHasElement", {"maybe"}, {"has"})
                              .output("longer")
                              .output("has")
                              .output("maybe");
  EXPECT_THAT(refusal([&] { builder.imported(); }), HasSubstr("input \"list\" is a sequence"));
  ImportOptions options;
  options.lists["list"] = {true, false, {two_numbers(0, 0), two_numbers(0, 0)}};
  options.lists["maybe"] = {false, true, {}};
  ImportedModel model = builder.imported(options);
  const std::vector<Tensor> inputs{two_numbers(1, 2), two_numbers(3, 4), two_numbers(5, 6)};
  const std::vector<Tensor> outputs = both(model, inputs);
  EXPECT_THAT(model.output_names(inputs), ElementsAre("longer[0]", "longer[1]", "longer[2]", "has"));
  EXPECT_THAT(doubles(concat({outputs[0], outputs[1], outputs[2]})), ElementsAre(5, 6, 1, 2, 3, 4));
  EXPECT_EQ(outputs[3].item(), 0);
  EXPECT_EQ(outputs.size(), 4U);
  options.lists["maybe"] = {false, false, {two_numbers(0, 0)}};
  ImportedModel with = builder.imported(options);
  const std::vector<Tensor> more = both(with, {inputs[0], inputs[1], inputs[2], two_numbers(7, 8)});
  EXPECT_EQ(more[3].item(), 1);
  EXPECT_THAT(doubles(more[4]), ElementsAre(7, 8));
}

TEST(Loops, OptionalsHoldSomethingOrNot) {
  ImportedModel model = Builder(18)
                            .input("x", DType::float32, {2})
                            .node("Optional", {"x"}, {"some"})
                            .node("Optional", {}, {"none"})
                            .node("OptionalHasElement", {"some"}, {"yes"})
                            .node("OptionalHasElement", {"none"}, {"no"})
                            .node("OptionalGetElement", {"some"}, {"y"})
                            .output("y")
                            .output("yes")
                            .output("no")
                            .imported();
  const std::vector<Tensor> outputs = both(model, {two_numbers(1, 2)});
  EXPECT_THAT(doubles(outputs[0]), ElementsAre(1, 2));
  EXPECT_EQ(outputs[1].item(), 1);
  EXPECT_EQ(outputs[2].item(), 0);
  ImportedModel wrong = Builder(18)
                            .input("x", DType::float32, {2})
                            .node("Optional", {}, {"none"})
                            .node("Add", {"x", "none"}, {"y"})
                            .output("y")
                            .imported();
  EXPECT_THAT(refusal([&] { wrong.call(std::vector<Tensor>{two_numbers(1, 2)}); }),
              HasSubstr("optional without an element"));
}

TEST(Loops, SequenceMapVisitsEachElement) {
  const auto body = Builder()
                        .input("a", DType::float32, {"n"})
                        .input("b", DType::float32, {})
                        .node("Mul", {"a", "b"}, {"c"})
                        .output("c")
                        .body();
  ImportedModel model = Builder(17)
                            .input("x", DType::float32, {2})
                            .input("y", DType::float32, {})
                            .node("Neg", {"x"}, {"z"})
                            .node("SequenceConstruct", {"x", "z", "x"}, {"list"})
                            .node("SequenceMap", {"list", "y"}, {"mapped"}, {{"body", body}})
                            .node("ConcatFromSequence", {"mapped"}, {"all"}, {{"axis", number(0)}})
                            .output("all")
                            .imported();
  EXPECT_THAT(doubles(both(model, {two_numbers(1, 2), full({}, 3)})[0]), ElementsAre(3, 6, -3, -6, 3, 6));
}

}  // namespace
}  // namespace diptych::onnx
