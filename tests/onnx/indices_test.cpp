// Indices beyond an axis: clamped, counted from the end or refused as each operator's text has it. Wanted values follow
// the text of the specification, element by element.

#include <array>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/onnx/one_node.h"

namespace diptych::onnx {
namespace {

using diptych::testing::Attributes;
using diptych::testing::Builder;
using diptych::testing::doubles;
using diptych::testing::error_of;
using diptych::testing::number;
using diptych::testing::of_one;
using diptych::testing::run;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using List = std::vector<std::int64_t>;

constexpr std::int64_t kLeastIndex = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMostIndex = std::numeric_limits<std::int64_t>::max();

Tensor list_of(const List& values) { return Tensor::from(values, {static_cast<std::int64_t>(values.size())}); }
Tensor counted_to(std::int64_t length) { return arange(static_cast<double>(length), DType::float64); }

/// "All negative values in starts and ends have dims added to them. Then start is clamped into [0, dims] for positive
/// stepping and [0, dims - 1] for negative stepping, end into [0, dims] and [-1, dims - 1]."
std::vector<double> sliced_by_the_text(std::int64_t length, std::int64_t start, std::int64_t end, std::int64_t step) {
  start += start < 0 ? length : 0;
  end += end < 0 ? length : 0;
  const std::int64_t least = step > 0 ? 0 : -1;
  const std::int64_t most = step > 0 ? length : length - 1;
  start = std::min(std::max<std::int64_t>(start, 0), most);
  end = std::min(std::max(end, least), most);
  std::vector<double> taken;
  for (std::int64_t at = start; step > 0 ? at < end : at > end; at += step) {
    taken.push_back(static_cast<double>(at));
    if (step > length || step < -length) {
      break;
    }
  }
  return taken;
}

TEST(IndexLimits, OfASliceAreThoseOfTheText) {
  for (const std::int64_t length : {0, 1, 3, 4}) {
    const Tensor x = counted_to(length);
    List places{kLeastIndex, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max(),
                kMostIndex};
    for (std::int64_t place = -length - 2; place <= length + 2; ++place) {
      places.push_back(place);
    }
    for (const std::int64_t step : {std::int64_t{1}, std::int64_t{2}, std::int64_t{7}, kMostIndex, std::int64_t{-1},
                                    std::int64_t{-2}, std::int64_t{-7}, kLeastIndex}) {
      for (const std::int64_t start : places) {
        for (const std::int64_t end : places) {
          ImportedModel model =
              of_one("Slice", {x, list_of({start}), list_of({end}), list_of({0}), list_of({step})}).imported();
          EXPECT_EQ(doubles(model.call(std::vector<Tensor>{x})[0]), sliced_by_the_text(length, start, end, step))
              << length << ": " << start << " to " << end << " by " << step;
        }
      }
    }
  }
  // As recorded from ONNX Runtime, in both modes.
  const Tensor rows = reshape(counted_to(6), {2, 3});
  EXPECT_THAT(doubles(run("Slice", {rows, list_of({-4}), list_of({-2147483648}), list_of({1}), list_of({-2})})[0]),
              ElementsAre(0, 3));
  EXPECT_THAT(
      doubles(run("Slice", {counted_to(3), list_of({-5}), list_of({kLeastIndex}), list_of({0}), list_of({-1})})[0]),
      ElementsAre(0));
}

TEST(IndexLimits, OfAPadThatRemoves) {
  const Tensor x = counted_to(3);
  EXPECT_THAT(doubles(run("Pad", {x, list_of({-1, -1})})[0]), ElementsAre(1));
  EXPECT_THAT(doubles(run("Pad", {x, list_of({-2, 2})})[0]), ElementsAre(2, 0, 0));
  EXPECT_THAT(doubles(run("Pad", {x, list_of({0, -3})})[0]), IsEmpty());
  for (const List& widths : {List{0, -4}, {-4, 0}, {-2, -2}, {-5, 3}, {0, -5}}) {
    EXPECT_THAT(error_of([&] { run("Pad", {x, list_of(widths)}); }), HasSubstr("remove more than axis 0 of f64[3]"));
  }
}

TEST(IndexLimits, OfShapesDiagonalsAndOneHotRows) {
  const Tensor x = full({2, 3, 4}, 0, DType::float64);
  const auto lengths = [&](std::int64_t start, std::int64_t end) {
    return doubles(run("Shape", {x}, {{"start", number(start)}, {"end", number(end)}})[0]);
  };
  EXPECT_THAT(lengths(-9, 2), ElementsAre(2, 3));
  EXPECT_THAT(lengths(kLeastIndex, kMostIndex), ElementsAre(2, 3, 4));
  EXPECT_THAT(lengths(1, 9), ElementsAre(3, 4));
  EXPECT_THAT(lengths(2, 1), IsEmpty());
  EXPECT_THAT(lengths(9, 9), IsEmpty());
  const Tensor plane = full({2, 3}, 1, DType::float64);
  for (const std::int64_t far : {kLeastIndex, std::int64_t{-2}, std::int64_t{3}, kMostIndex}) {
    EXPECT_THAT(doubles(run("EyeLike", {plane}, {{"k", number(far)}})[0]), Each(0)) << far;
    EXPECT_THAT(doubles(run("Trilu", {plane, Tensor::scalar(far)}, {{"upper", number(1)}})[0]), Each(far < 0 ? 1 : 0))
        << far;
  }
  EXPECT_THAT(doubles(run("EyeLike", {plane}, {{"k", number(2)}})[0]), ElementsAre(0, 0, 1, 0, 0, 0));
  // "Indices outside of [-depth, depth - 1] give rows of all off values."
  const auto hot = [](const Tensor& indices) {
    return doubles(run("OneHot", {indices, Tensor::scalar(std::int64_t{2}), Tensor::from({0.0, 1.0}, {2})})[0]);
  };
  EXPECT_THAT(hot(list_of({-2, -1, 1, 2, -3, kLeastIndex, kMostIndex})),
              ElementsAre(1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(hot(Tensor::from(std::vector<std::uint64_t>{1, ~std::uint64_t{0}, ~std::uint64_t{1}}, {3})),
              ElementsAre(0, 1, 0, 0, 0, 0));
}

/// What a model of one node says about its inputs: with integers as constants, and with all of them given, in eager and
/// in a graph.
void expect_refused(const std::string& op, const std::vector<Tensor>& inputs, const std::string& words,
                    const Attributes& attributes = {}) {
  SCOPED_TRACE(op);
  const auto has = AllOf(HasSubstr(words), HasSubstr("at onnx:0"));
  ImportedModel known = of_one(op, inputs, attributes).imported();
  std::vector<Tensor> floats;
  Builder builder(25);
  std::vector<std::string> names;
  for (const Tensor& input : inputs) {
    names.push_back("x" + std::to_string(names.size()));
    builder.input(names.back(), input.dtype(), {input.shape().begin(), input.shape().end()});
    if (is_floating(input.dtype())) {
      floats.push_back(input);
    }
  }
  ImportedModel given = builder.node(op, names, {"y"}, attributes).output("y").imported();
  const std::string node = "node \"" + op + "_0\" (" + op + ", opset 25): ";
  for (const auto& [model, values] : {std::pair(&known, floats), std::pair(&given, inputs)}) {
    EXPECT_THAT(error_of([&, model = model, &values = values] { model->call(values); }), AllOf(has, HasSubstr(node)));
  }
  graph::JitFunction compiled(
      [&](std::span<const Tensor> arguments, std::shared_ptr<void>&) { return given.call(arguments); },
      {.name = "model"});
  EXPECT_THAT(error_of([&] { compiled.call(inputs, Location::current()); }),
              AllOf(has, HasSubstr(" in " + op + "_0; ")));
}

TEST(IndexLimits, AreNamedAsTheyWereGiven) {
  const Tensor x = reshape(counted_to(12), {3, 4});
  const Tensor row = counted_to(4);
  expect_refused("Gather", {x, list_of({0, 3})}, "index 3 at position 1 is outside [-3, 3)");
  expect_refused("Gather", {x, list_of({-5})}, "index -5 at position 0 is outside [-4, 4)", {{"axis", number(1)}});
  expect_refused("GatherElements", {row, list_of({1, -9})}, "index -9 at position 1 is outside [-4, 4)");
  const auto place = [](const List& values) { return Tensor::from(values, {1, 2}); };
  expect_refused("GatherND", {x, place({0, 7})}, "index 7 at position 1 is outside [-4, 4)");
  expect_refused("GatherND", {x, place({-9, 0})}, "index -9 at position 0 is outside [-3, 3)");
  expect_refused("GatherND", {x, Tensor::from(List{1, 0, 4}, {3, 1})}, "index 4 at position 2 is outside [-4, 4)",
                 {{"batch_dims", number(1)}});
  expect_refused("ScatterND", {x, place({0, 7}), counted_to(1)}, "index 7 at position 1 is outside [-4, 4)");
  expect_refused("ScatterND", {x, place({-9, 0}), counted_to(1)}, "index -9 at position 0 is outside [-3, 3)");
  for (const char* op : {"ScatterElements", "Scatter"}) {
    expect_refused(op, {row, list_of({4}), counted_to(1)}, "index 4 at position 0 is outside [-4, 4)");
    expect_refused(op, {row, list_of({0, -5}), counted_to(2)}, "index -5 at position 1 is outside [-4, 4)");
  }
  expect_refused("TensorScatter",
                 {full({1, 2, 1}, 0, DType::float64), full({1, 1, 1}, 0, DType::float64), list_of({2})},
                 "index 2 at position 0 is outside [0, 2)");
  expect_refused("ReverseSequence", {x, list_of({1, 2, 4, 1})}, "index 4 at position 2 is outside [0, 4)");
  expect_refused("RoiAlign", {full({2, 1, 2, 2}, 0, DType::float64), full({1, 4}, 1, DType::float64), list_of({2})},
                 "index 2 at position 0 is outside [0, 2)", {{"sampling_ratio", number(1)}});
  expect_refused("MaxUnpool", {full({1, 1, 1}, 0, DType::float64), Tensor::from(List{2}, {1, 1, 1})},
                 "index 2 at position 0 is outside [0, 2)", {{"kernel_shape", List{2}}, {"strides", List{2}}});
}

TEST(IndexLimits, OfLabelsAndDivisors) {
  const Tensor scores = full({2, 3}, 0.5, DType::float64);
  for (const char* op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
    expect_refused(op, {scores, list_of({0, 3})}, "index 3 at position 1 is outside [0, 3)");
    expect_refused(op, {scores, list_of({-1, 0})}, "index -1 at position 0 is outside [0, 3)");
    expect_refused(op, {scores, list_of({-1, 5}), counted_to(3)}, "index 5 at position 1 is outside [0, 3)",
                   {{"ignore_index", number(-1)}});
  }
  const Builder of_integers = Builder(17)
                                  .input("a", DType::int64, {2})
                                  .input("b", DType::int64, {2})
                                  .node("Div", {"a", "b"}, {"y"})
                                  .output("y");
  const Builder rests = Builder(17)
                            .input("a", DType::int64, {2})
                            .input("b", DType::int64, {2})
                            .node("Mod", {"a", "b"}, {"y"})
                            .output("y");
  for (const auto& [builder, op] : {std::pair(of_integers, "Div_0"), std::pair(rests, "Mod_0")}) {
    ImportedModel model = builder.imported();
    const std::vector<Tensor> values{list_of({1, 2}), list_of({3, 0})};
    graph::JitFunction compiled(
        [&](std::span<const Tensor> arguments, std::shared_ptr<void>&) { return model.call(arguments); },
        {.name = "model"});
    const auto says = AllOf(HasSubstr(": an integer is divided by zero, at onnx:0"), HasSubstr(op));
    EXPECT_THAT(error_of([&] { model.call(values); }), says);
    EXPECT_THAT(error_of([&] { compiled.call(values, Location::current()); }), says);
  }
}

}  // namespace
}  // namespace diptych::onnx
