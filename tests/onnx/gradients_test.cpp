// Gradients of ONNX's operators, by all their inputs and over all their outputs, against central differences in double.
// Where a function has no derivative but a convention, against the convention.

#include <array>
#include <cmath>
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
using diptych::testing::expect_gradients;
using diptych::testing::gradients;
using diptych::testing::IsNear;
using diptych::testing::number;
using diptych::testing::of_one;
using diptych::testing::random;
using diptych::testing::refused_node;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using List = std::vector<std::int64_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

AttributeValue text(const char* value) { return AttributeValue(std::string(value)); }
AttributeValue real(double value) { return AttributeValue(value); }
Tensor whole(std::int64_t value) { return Tensor::scalar(value); }
Tensor row(const List& values) { return Tensor::from(values, {static_cast<std::int64_t>(values.size())}); }
Tensor places(const List& values, const Shape& shape) { return Tensor::from(values, shape); }
Tensor positive(std::uint64_t seed, const Shape& shape) {
  return add(abs(random(seed, shape)), full({}, 0.2, DType::float64));
}

/// The gradient of the sum of the first output by x.
std::vector<double> slopes(const std::string& op, const Tensor& x, const Attributes& attributes = {}) {
  ImportedModel model = of_one(op, {x}, attributes).imported();
  return doubles(grad([&](const Tensor& t) { return sum(model.call(std::vector<Tensor>{t})[0]); })(x));
}

TEST(OperatorGradients, FunctionsOfOneElement) {
  const Tensor x = random(1, {3, 4});
  for (const char* op :
       {"Abs",      "Asinh",    "Ceil",      "Celu",        "Cos",       "Cosh",    "Elu",     "Erf",
        "Exp",      "Floor",    "Gelu",      "Mish",        "Neg",       "Relu",    "Round",   "Selu",
        "Sigmoid",  "Sign",     "Sin",       "Sinh",        "Swish",     "Tanh",    "Tan",     "Softplus",
        "Softsign", "Identity", "HardSwish", "HardSigmoid", "LeakyRelu", "Hardmax", "Softmax", "LogSoftmax"}) {
    expect_gradients(op, {x});
  }
  expect_gradients("Acosh", {add(positive(2, {5}), full({}, 1, DType::float64))});
  expect_gradients("Atanh", {tanh(random(3, {5}))});
  for (const char* op : {"Log", "Sqrt", "Reciprocal"}) {
    expect_gradients(op, {positive(4, {5})});
  }
  expect_gradients("Shrink", {x}, {{"bias", real(0.25)}, {"lambd", real(0.5)}});
  expect_gradients("ThresholdedRelu", {x}, {{"alpha", real(0.3)}});
  expect_gradients("Gelu", {x}, {{"approximate", text("tanh")}});
  expect_gradients("Swish", {x}, {{"alpha", real(1.5)}});
  expect_gradients("Clip", {x, full({}, -0.5, DType::float64), full({}, 0.5, DType::float64)});
}

TEST(OperatorGradients, FunctionsOfSeveralTensors) {
  const Tensor x = random(1, {2, 3});
  const Tensor y = random(2, {3});
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum", "PRelu"}) {
    expect_gradients(op, {x, y});
  }
  expect_gradients("Pow", {positive(3, {2, 3}), y});
  expect_gradients("Mod", {x, positive(4, {3})}, {{"fmod", number(1)}});
  expect_gradients("Where", {greater(x, full({}, 0, DType::float64)), x, y});
  expect_gradients("MatMul", {x, random(4, {3, 2})});
  expect_gradients("Gemm", {x, random(5, {4, 3}), random(6, {4})},
                   {{"transB", number(1)}, {"alpha", real(0.5)}, {"beta", real(2)}});
  expect_gradients("Einsum", {random(7, {3, 3}), y}, {{"equation", text("ii,i->i")}});
}

TEST(OperatorGradients, ReductionsAndRunningSums) {
  const Tensor x = random(1, {2, 3, 2});
  const Tensor axes = row({0, 2});
  for (const char* op : {"ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
                         "ReduceProd", "ReduceSum", "ReduceSumSquare"}) {
    expect_gradients(op, {x, axes});
  }
  expect_gradients("ReduceLogSum", {positive(2, {2, 3, 2}), axes}, {{"keepdims", number(0)}});
  expect_gradients("CumSum", {x, whole(1)}, {{"exclusive", number(1)}, {"reverse", number(1)}});
  expect_gradients("TopK", {x, row({2})}, {{"axis", number(1)}}, 2);
}

TEST(OperatorGradients, Signals) {
  const Tensor window = random(2, {4});
  expect_gradients("STFT", {random(1, {1, 9, 1}), whole(2), window, whole(4)});
  expect_gradients("STFT", {random(1, {2, 7, 1}), whole(3), {}, whole(3)}, {{"onesided", number(0)}});
  expect_gradients("STFT", {random(1, {1, 6, 2}), whole(1), window}, {{"onesided", number(0)}});
  const Tensor signal = random(3, {1, 5, 2, 2});
  for (const std::int64_t length : {3, 5, 8}) {  // cut, whole, with zeros behind
    expect_gradients("DFT", {signal, whole(length), whole(1)});
    expect_gradients("DFT", {signal, whole(length), whole(2)}, {{"inverse", number(1)}});
  }
  expect_gradients("DFT", {random(4, {1, 5, 1}), {}, whole(1)}, {{"onesided", number(1)}});
}

// A window is a constant: it passes a gradient on to what it is multiplied with.
TEST(OperatorGradients, WindowsAreConstants) {
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    SCOPED_TRACE(op);
    const Builder builder = Builder(17)
                                .input("x", DType::float64, {2, 6})
                                .constant("length", whole(6))
                                .node(op, {"length"}, {"w"}, {{"output_datatype", number(11)}})
                                .node("Mul", {"x", "w"}, {"y"})
                                .output("y");
    expect_gradients(builder, {random(1, {2, 6})});
    ImportedModel model = builder.imported();
    const double middle = doubles(gradients(model, {full({2, 6}, 0, DType::float64)})[0])[3];
    EXPECT_NE(middle, 0);  // the largest element of each
  }
  const Builder mel =
      Builder(17)
          .input("x", DType::float64, {2, 5})
          .constant("bins", whole(3))
          .constant("length", whole(8))
          .constant("rate", whole(8000))
          .constant("low", full({}, 0, DType::float32))
          .constant("high", full({}, 3000, DType::float32))
          .node("MelWeightMatrix", {"bins", "length", "rate", "low", "high"}, {"m"}, {{"output_datatype", number(11)}})
          .node("MatMul", {"x", "m"}, {"y"})
          .output("y");
  expect_gradients(mel, {random(1, {2, 5})});
}

TEST(OperatorGradients, Determinants) {
  for (const std::int64_t rows : {1, 2, 5}) {
    expect_gradients("Det", {random(1, {2, rows, rows})});
  }
  // The adjugate where there is no inverse: a column or row of zeros, rank 2 of 3, rank 1 of 3, nothing at all.
  const std::vector<std::vector<double>> singular{{0, 1, 2, 0, 3, -1, 0, 4, 1},
                                                  {1, 2, 3, 0, 0, 0, 4, -1, 2},
                                                  {1, 2, 3, 4, 5, 6, 7, 8, 9},
                                                  {1, 2, 3, 2, 4, 6, -1, -2, -3},
                                                  {0, 0, 0, 0, 0, 0, 0, 0, 0}};
  for (const std::vector<double>& matrix : singular) {
    expect_gradients("Det", {Tensor::from(matrix, {3, 3})});
  }
}

TEST(OperatorGradients, Sampling) {
  const Tensor image = random(1, {1, 2, 3, 4});
  const Tensor half = full({}, 0.5, DType::float64);
  const Tensor grid = mul(random(2, {1, 2, 3, 2}), half);
  for (const std::int64_t aligned : {0, 1}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      SCOPED_TRACE(padding);
      const Attributes common{{"padding_mode", text(padding)}, {"align_corners", number(aligned)}};
      Attributes nearest = common;
      nearest["mode"] = text("nearest");
      expect_gradients("GridSample", {image, grid}, nearest);
      expect_gradients("GridSample", {random(3, {2, 1, 2, 3, 2}), mul(random(4, {2, 1, 2, 2, 3}), half)}, common);
    }
  }
  for (const std::int64_t aligned : {0, 1}) {
    expect_gradients("AffineGrid", {random(6, {2, 2, 3}), row({2, 1, 3, 4})}, {{"align_corners", number(aligned)}});
    expect_gradients("AffineGrid", {random(7, {1, 3, 4}), row({1, 1, 2, 1, 3})}, {{"align_corners", number(aligned)}});
  }
  const Tensor regions = Tensor::from({0.3, 0.4, 3.7, 4.1, -1.6, 1.1, 2.3, 9.2, 2.2, 1.3, 2.9, 1.9}, {3, 4});
  const Tensor images = row({0, 1, 0});
  for (const char* transform : {"half_pixel", "output_half_pixel"}) {
    expect_gradients("RoiAlign", {random(5, {2, 2, 5, 6}), regions, images},
                     {{"output_height", number(2)},
                      {"output_width", number(3)},
                      {"sampling_ratio", number(2)},
                      {"spatial_scale", real(0.9)},
                      {"coordinate_transformation_mode", text(transform)}});
  }
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    expect_gradients("Resize", {image, {}, {}, row({1, 2, 5, 3})}, {{"mode", text(mode)}});
  }
}

TEST(OperatorGradients, VolumesWithGroupsGapsAndSteps) {
  expect_gradients("Conv", {random(1, {1, 2, 3, 4, 3}), random(2, {4, 1, 2, 2, 2}), random(3, {4})},
                   {{"group", number(2)},
                    {"pads", List{0, 1, 1, 1, 0, 1}},
                    {"strides", List{1, 2, 1}},
                    {"dilations", List{2, 1, 2}}});
  expect_gradients("ConvTranspose", {random(4, {1, 2, 2, 2, 2}), random(5, {2, 1, 2, 2, 1}), random(6, {2})},
                   {{"group", number(2)},
                    {"strides", List{1, 2, 2}},
                    {"dilations", List{2, 1, 1}},
                    {"pads", List{1, 0, 0, 0, 0, 1}}});
  const Tensor volume = random(7, {1, 2, 4, 3, 4});
  const Attributes windows{{"kernel_shape", List{2, 2, 2}},
                           {"pads", List{1, 0, 1, 0, 1, 0}},
                           {"strides", List{1, 1, 2}},
                           {"dilations", List{2, 1, 2}}};
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
    expect_gradients(op, {volume}, windows);
  }
  Attributes counted = windows;
  counted["count_include_pad"] = number(1);
  expect_gradients("AveragePool", {volume}, counted);
  for (const std::int64_t p : {1, 3}) {
    Attributes norms = windows;
    norms["p"] = number(p);
    expect_gradients("LpPool", {volume}, norms);
    expect_gradients("GlobalLpPool", {volume}, {{"p", number(p)}});
  }
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"}) {
    expect_gradients(op, {volume});
  }
}

TEST(OperatorGradients, PoolsOfPlanes) {
  const Tensor x = random(1, {1, 2, 5, 6});
  for (const std::int64_t counts : {0, 1}) {
    expect_gradients("AveragePool", {x},
                     {{"kernel_shape", List{2, 3}},
                      {"dilations", List{2, 2}},
                      {"pads", List{1, 2, 0, 1}},
                      {"ceil_mode", number(1)},
                      {"count_include_pad", number(counts)}});
  }
  expect_gradients("MaxPool", {x},
                   {{"kernel_shape", List{2, 2}}, {"dilations", List{2, 3}}, {"pads", List{1, 1, 1, 1}}}, 2);
  const Tensor small = random(2, {1, 1, 2, 2});
  const Tensor index = places({5, 7, 13, 10}, {1, 1, 2, 2});
  const Attributes unpool{{"kernel_shape", List{2, 2}}, {"strides", List{2, 2}}};
  expect_gradients("MaxUnpool", {small, index}, unpool);
  expect_gradients("MaxUnpool", {small, index, row({1, 1, 5, 6})}, unpool);
}

TEST(OperatorGradients, RecurrentNetworksByStatesWeightsAndPeepholes) {
  const Tensor x = random(1, {3, 2, 2});
  const Tensor lengths = Tensor::from({std::int32_t{2}, std::int32_t{3}}, {2});
  for (const auto& [op, gates] : {std::pair<const char*, std::int64_t>{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    const bool is_lstm = gates == 4;
    std::vector<Tensor> inputs{
        x,       random(2, {2, gates * 2, 2}), random(3, {2, gates * 2, 2}), random(4, {2, gates * 4}),
        lengths, random(5, {2, 2, 2})};
    if (is_lstm) {
      inputs.push_back(random(6, {2, 2, 2}));
      inputs.push_back(random(7, {2, 6}));
    }
    const Attributes both_ways{{"hidden_size", number(2)}, {"direction", text("bidirectional")}};
    const int outputs = is_lstm ? 3 : 2;
    expect_gradients(op, inputs, both_ways, outputs);
    Attributes other = both_ways;
    other["layout"] = number(1);
    other["clip"] = real(1.5);
    if (op == std::string("GRU")) {
      other["linear_before_reset"] = number(1);
    }
    if (is_lstm) {
      other["input_forget"] = number(1);
    }
    std::vector<Tensor> by_batch = inputs;
    by_batch[0] = random(8, {2, 3, 2});
    expect_gradients(op, by_batch, other, outputs);
  }
  for (const char* function : {"Affine", "Elu", "HardSigmoid", "LeakyRelu", "Relu", "ScaledTanh", "Sigmoid", "Softplus",
                               "Softsign", "ThresholdedRelu"}) {
    SCOPED_TRACE(function);
    expect_gradients("RNN", {x, random(2, {1, 2, 2}), random(3, {1, 2, 2})},
                     {{"hidden_size", number(2)},
                      {"activations", std::vector<std::string>{function}},
                      {"activation_alpha", std::vector<double>{0.4}},
                      {"activation_beta", std::vector<double>{0.3}}});
  }
}

TEST(OperatorGradients, Normalisations) {
  const Tensor x = random(1, {2, 4, 3});
  const Tensor scale = random(2, {4});
  const Tensor bias = random(3, {4});
  expect_gradients("BatchNormalization", {x, scale, bias, random(4, {4}), positive(5, {4})});
  expect_gradients("BatchNormalization", {x, scale, bias, random(4, {4}), positive(5, {4})},
                   {{"training_mode", number(1)}}, 3);
  expect_gradients("InstanceNormalization", {x, scale, bias});
  expect_gradients("GroupNormalization", {x, scale, bias}, {{"num_groups", number(2)}});
  expect_gradients("GroupNormalization", {x, random(6, {2}), random(7, {2})}, {{"num_groups", number(2)}}, 1, 18);
  expect_gradients("LayerNormalization", {x, random(8, {4, 3}), random(9, {4, 3})},
                   {{"axis", number(1)}, {"stash_type", number(11)}}, 3);
  expect_gradients("RMSNormalization", {x, random(8, {3})});
  expect_gradients("LRN", {x}, {{"size", number(3)}, {"alpha", real(0.3)}});
  expect_gradients("MeanVarianceNormalization", {random(8, {2, 2, 2, 3})});
  for (const std::int64_t p : {1, 2}) {
    expect_gradients("LpNormalization", {x}, {{"p", number(p)}, {"axis", number(1)}});
  }
}

// A norm has no derivative at zero; the engine's is 0, and so is that of what was divided by it.
TEST(OperatorGradients, NormsOfNothingHaveNoSlope) {
  const Tensor zero = full({1, 1, 4}, 0, DType::float64);
  for (const std::int64_t p : {1, 2, 3}) {
    const AttributeValue order = number(p);
    EXPECT_THAT(slopes("GlobalLpPool", zero, {{"p", order}}), Each(0)) << p;
    EXPECT_THAT(slopes("LpPool", zero, {{"p", order}, {"kernel_shape", List{2}}}), Each(0)) << p;
  }
  for (const char* op : {"ReduceL2", "ReduceL1"}) {
    EXPECT_THAT(slopes(op, zero, {{"keepdims", number(0)}}), Each(0)) << op;
  }
  // Only the window, or row, of zeros: the others are the elements divided by their length of 5, and its derivative.
  const Tensor x = Tensor::from({0.0, 0.0, 3.0, 4.0}, {1, 2, 2});
  EXPECT_THAT(slopes("LpPool", x, {{"kernel_shape", List{2}}}),
              Pointwise(IsNear(1e-14), std::vector<double>{0, 0, 0.6, 0.8}));
  for (const std::int64_t p : {1, 2}) {
    const std::vector<double> found = slopes("LpNormalization", x, {{"p", number(p)}});
    EXPECT_THAT(std::vector<double>(found.begin(), found.begin() + 2), Each(0)) << p;
  }
  EXPECT_THAT(slopes("LpNormalization", x), Pointwise(IsNear(1e-14), std::vector<double>{0, 0, 0.032, -0.024}));
}

TEST(OperatorGradients, Attention) {
  const Tensor q = random(1, {1, 4, 2, 3});
  const Tensor k = random(2, {1, 2, 3, 3});
  const Tensor v = random(3, {1, 2, 3, 2});
  expect_gradients("Attention", {q, k, v});
  expect_gradients("Attention", {q, k, v, random(4, {2, 3})}, {{"is_causal", number(1)}, {"scale", real(0.4)}});
  expect_gradients("Attention", {q, k, v, {}, random(5, {1, 2, 2, 3}), random(6, {1, 2, 2, 2})},
                   {{"is_causal", number(1)}}, 3);
  for (const std::int64_t stage : {0, 1, 2, 3}) {
    expect_gradients("Attention", {q, k, v, random(4, {1, 1, 2, 3})},
                     {{"softcap", real(0.7)}, {"qk_matmul_output_mode", number(stage)}}, 4);
  }
  expect_gradients("Attention", {random(7, {1, 2, 6}), random(8, {1, 3, 6}), random(9, {1, 3, 4})},
                   {{"q_num_heads", number(2)}, {"kv_num_heads", number(2)}});
  expect_gradients("RotaryEmbedding",
                   {random(1, {1, 2, 2, 4}), random(2, {3, 2}), random(3, {3, 2}), places({2, 0}, {1, 2})},
                   {{"interleaved", number(1)}});
}

// A row that sees nothing is 0, whatever its query, the keys and the values.
TEST(OperatorGradients, RowsOfAttentionThatSeeNothingHaveNoSlope) {
  const Tensor q = random(1, {1, 2, 2, 3});
  const Tensor k = random(2, {1, 2, 3, 3});
  const Tensor v = random(3, {1, 2, 3, 2});
  const Tensor added = Tensor::from({0.5, -kInfinity, 0.1, -kInfinity, -kInfinity, -kInfinity}, {2, 3});
  const Tensor taken = greater(added, full({}, -kInfinity, DType::float64));
  const Tensor none = row({0});  // no valid key
  const auto check = [&](const std::vector<Tensor>& inputs, const Attributes& attributes, bool all) {
    expect_gradients("Attention", inputs, attributes);
    ImportedModel model = of_one("Attention", inputs, attributes).imported();
    const Tensor by_q = gradients(model, diptych::testing::floating(inputs))[0];
    EXPECT_THAT(doubles(select(by_q, 2, 1)), Each(0));
    EXPECT_EQ(std::fabs(doubles(by_q)[0]) == 0, all);
  };
  for (const double softcap : {0.0, 0.8}) {
    const Attributes attributes{{"softcap", real(softcap)}};
    check({q, k, v, added}, attributes, false);
    check({q, k, v, taken}, attributes, false);
    check({q, k, v, {}, {}, {}, none}, attributes, true);
  }
}

TEST(OperatorGradients, ScatteringAndGathering) {
  const Tensor x = random(1, {3, 2});
  const Tensor twice = places({1, 0, -2}, {3, 1});  // row 1 twice
  const auto by = [](const char* reduction) { return Attributes{{"reduction", text(reduction)}}; };
  for (const char* reduction : {"add", "mul", "max", "min"}) {
    SCOPED_TRACE(reduction);
    expect_gradients("ScatterND", {x, twice, random(2, {3, 2})}, by(reduction));
    expect_gradients("ScatterND", {x, places({0, 1, 2, 0, 0, 1}, {3, 2}), random(3, {3})}, by(reduction));
    Attributes along = by(reduction);
    along["axis"] = number(1);
    expect_gradients("ScatterElements", {x, places({1, 1, 0, 0}, {2, 2}), random(4, {2, 2})}, along);
  }
  // One factor is 0, and two are.
  const Tensor zeros = Tensor::from({0.0, 0.0, 2.0, 0.0, 1.5, -1.0}, {3, 2});
  expect_gradients("ScatterND", {zeros, twice, Tensor::from({0.5, 0.0, -1.0, 3.0, 2.0, 0.0}, {3, 2})}, by("mul"));
  expect_gradients("ScatterND", {x, places({2, 0}, {2, 1}), random(5, {2, 2})});
  expect_gradients("ScatterElements", {x, places({2, 1}, {1, 2}), random(6, {1, 2})});
  expect_gradients("TensorScatter", {random(7, {2, 4, 1}), random(8, {2, 2, 1}), row({3, 1})},
                   {{"mode", text("circular")}});
  expect_gradients("GatherND", {random(9, {2, 3, 2}), places({1, -1}, {2, 1})}, {{"batch_dims", number(1)}});
  expect_gradients("GatherElements", {x, places({2, -1, 0, 0}, {2, 2})});
  expect_gradients("Gather", {x, places({2, 0, 2}, {3})});
  expect_gradients("Compress", {x, greater(row({1, 0, 1}), whole(0))}, {{"axis", number(0)}});
}

TEST(OperatorGradients, ShapesAndSequences) {
  const Tensor x = random(1, {1, 4, 2, 4});
  expect_gradients("CenterCropPad", {x, row({4, 3})}, {{"axes", List{2, 3}}});
  expect_gradients("ReverseSequence", {random(2, {3, 2}), row({2, 3})});
  expect_gradients("DepthToSpace", {x}, {{"blocksize", number(2)}, {"mode", text("CRD")}});
  expect_gradients("Trilu", {x, whole(1)}, {{"upper", number(0)}});
  expect_gradients("Expand", {random(3, {3, 1}), row({2, 3, 2})});
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    expect_gradients("Pad", {random(4, {3, 4}), row({1, 2, 2, 1})}, {{"mode", text(mode)}});
  }
  expect_gradients(Builder(17)
                       .input("x", DType::float64, {5})
                       .constant("two", whole(2))
                       .constant("last", whole(-1))
                       .node("SplitToSequence", {"x", "two"}, {"parts"})
                       .node("SequenceInsert", {"parts", "x", "last"}, {"more"})
                       .node("SequenceAt", {"more", "last"}, {"end"})
                       .node("ConcatFromSequence", {"more"}, {"all"}, {{"axis", number(0)}})
                       .node("Mul", {"all", "all"}, {"square"})
                       .output("square")
                       .output("end"),
                   {random(5, {5})});
}

TEST(OperatorGradients, Losses) {
  const Tensor scores = random(1, {4, 3});
  const Tensor labels = row({2, 0, 1, 2});
  const Tensor weights = positive(2, {3});
  for (const char* reduction : {"mean", "sum", "none"}) {
    const Attributes attributes{{"reduction", text(reduction)}, {"ignore_index", number(1)}};
    expect_gradients("SoftmaxCrossEntropyLoss", {scores, labels, weights}, attributes, 2);
    expect_gradients("NegativeLogLikelihoodLoss", {scores, labels, weights}, attributes);
  }
}

/// Rate, updates so far, then for two tensors: themselves, their gradients, and `moments` moments, positive ones.
std::vector<Tensor> optimiser_inputs(std::int64_t updates, int moments) {
  std::vector<Tensor> inputs{full({}, 0.3, DType::float64), whole(updates)};
  for (int part = 0; part < 2 + moments; ++part) {
    for (const Shape& shape : {Shape{2}, Shape{2, 2}}) {
      const std::uint64_t seed = inputs.size();
      inputs.push_back(part < 2 ? random(seed, shape) : positive(seed, shape));
    }
  }
  return inputs;
}

// Training differentiates through its own steps, too: by the rate, the gradients and the moments. Before the first
// update, nothing is corrected for.
TEST(OperatorGradients, OptimisersByEverythingThatTheyTake) {
  const std::string domain = "ai.onnx.preview.training::";
  for (const std::int64_t updates : {0, 3}) {
    SCOPED_TRACE(updates);
    expect_gradients(domain + "Adagrad", optimiser_inputs(updates, 1),
                     {{"decay_factor", real(0.1)}, {"epsilon", real(1e-3)}, {"norm_coefficient", real(0.2)}}, 4);
    expect_gradients(domain + "Adam", optimiser_inputs(updates, 2),
                     {{"alpha", real(0.8)},
                      {"beta", real(0.9)},
                      {"epsilon", real(1e-3)},
                      {"norm_coefficient", real(0.2)},
                      {"norm_coefficient_post", real(0.1)}},
                     6);
    for (const char* mode : {"standard", "nesterov"}) {
      expect_gradients(
          domain + "Momentum", optimiser_inputs(updates, 1),
          {{"alpha", real(0.8)}, {"beta", real(0.9)}, {"norm_coefficient", real(0.2)}, {"mode", text(mode)}}, 4);
    }
  }
}

}  // namespace
}  // namespace diptych::onnx
