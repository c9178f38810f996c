// Models made node by node that are refused for their nodes, inputs or sizes, and the messages.

#include <limits>
#include <map>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "framework/io/onnx/operators.h"
#include "tests/onnx/builder.h"
#include "tests/onnx/imported.h"

namespace diptych::onnx {
namespace {

using diptych::testing::both;
using diptych::testing::Builder;
using diptych::testing::classifier;
using diptych::testing::doubling;
using diptych::testing::error_of;
using diptych::testing::refusal;
using diptych::testing::refused_node;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using List = std::vector<std::int64_t>;

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

TEST(Import, WhatIsNotSupportedIsNamedBeforeAnythingRuns) {
  EXPECT_THAT(refused_node("ImageDecoder"), AllOf(HasSubstr("\"ImageDecoder_0\""), HasSubstr("ImageDecoder, opset 17"),
                                                  HasSubstr("no such operator")));
  EXPECT_THAT(refused_node("FusedGemm", {}, 17, "com.microsoft"),
              AllOf(HasSubstr("com.microsoft::FusedGemm"), HasSubstr("ONNX's own operators")));
  EXPECT_THAT(refused_node("Relu", {{"slope", AttributeValue(0.5)}}), HasSubstr("attribute \"slope\""));
  EXPECT_THAT(refused_node("Upsample", {}, 10), HasSubstr("supported from opset 7 to 9"));
  EXPECT_THAT(refused_node("Attention", {}, 17), HasSubstr("supported from opset 23"));
  EXPECT_THAT(refused_node("Cast", {{"to", AttributeValue(std::int64_t{14})}}), HasSubstr("complex64"));
  EXPECT_THAT(refused_node("Gelu", {{"approximate", AttributeValue(std::string("sigmoid"))}}, 20), HasSubstr("tanh"));
  EXPECT_THAT(refused_node("Gelu"), HasSubstr("supported from opset 20"));
}

// No model is of opset 0: what a message says is the version that the file names, of the node's own domain.
TEST(Import, MessagesNameTheOpsetOfTheNodesDomain) {
  EXPECT_THAT(refused_node("FusedGemm", {}, 17, "com.microsoft"), HasSubstr("(com.microsoft::FusedGemm, opset 1)"));
  const auto refused = [](const std::map<std::string, std::int64_t>& opsets, const std::string& domain) {
    Model model;
    model.opsets = opsets;
    model.graph = Builder().input("x", DType::float32, {2}).node("Relu", {"x"}, {"y"}, {}, domain).output("y").body();
    return refusal([&] { ImportedModel{std::make_shared<const Model>(model)}; });
  };
  for (const std::string& said : {refused({{"com.example", 3}}, ""), refused({{"", 17}}, "com.example")}) {
    EXPECT_THAT(said, AllOf(HasSubstr("Relu, of which the model names no opset"), Not(HasSubstr("opset 0"))));
  }
}

TEST(Import, AllProblemsAreListedAtOnce) {
  const Builder builder = Builder()
                              .input("x", DType::float32, {2})
                              .node("RegexFullMatch", {"x"}, {"a"})
                              .node("Relu", {"a"}, {"b"})
                              .node("ImageDecoder", {"b"}, {"y"})
                              .output("y");
  EXPECT_THAT(refusal([&] { builder.imported(); }), AllOf(HasSubstr("RegexFullMatch"), HasSubstr("ImageDecoder")));
}

TEST(Import, TypesThatTheEngineDoesNotHaveAreRefused) {
  const Builder builder = Builder().foreign_input("x", "complex64 tensor").node("Relu", {"x"}, {"y"}).output("y");
  EXPECT_THAT(refusal([&] { builder.imported(); }), AllOf(HasSubstr("\"x\" is a complex64 tensor"), HasSubstr("Relu")));
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

TEST(Import, WhatIsRefusedForItsTypesIsRefusedBeforeAnythingRuns) {
  // The first node would fail on its elements if it ran.
  ImportedModel model = Builder()
                            .input("x", DType::float32, {2})
                            .input("i", DType::int64, {1})
                            .node("Gather", {"x", "i"}, {"picked"})
                            .node("Unsqueeze", {"picked", "axes"}, {"cube"})
                            .integers("axes", {0, 1, 3, 4, 5})
                            .constant("w", full({1, 1, 1, 1, 1, 1}, 1))
                            .node("Conv", {"cube", "w"}, {"y"})
                            .output("y")
                            .imported();
  EXPECT_THAT(refusal([&] {
                model.call(std::vector<Tensor>{full({2}, 1), Tensor::from({std::int64_t{99}}, {1})});
              }),
              HasSubstr("1 to 3 spatial axes"));
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

TEST(OnnxImport, AWidthBeyondAllMemory) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  for (const List& pads : {List{0, kLeast}, List{kLeast, 0}, List{0, std::int64_t{1} << 50}}) {
    ImportedModel model = Builder()
                              .input("x", DType::float32, {3})
                              .integers("pads", pads)
                              .node("Pad", {"x", "pads"}, {"y"})
                              .output("y")
                              .imported();
    EXPECT_THAT(error_of([&] { model.call(std::vector<Tensor>{full({3}, 1)}); }), HasSubstr("a width of"));
  }
}

}  // namespace
}  // namespace diptych::onnx
