// Operators that came after the recorded cases, or whose corners these leave out: against formulas in double, and their
// gradients against finite differences.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/onnx/one_node.h"

namespace diptych::onnx {
namespace {

using diptych::testing::Attributes;
using diptych::testing::both;
using diptych::testing::Builder;
using diptych::testing::doubles;
using diptych::testing::expect_gradients;
using diptych::testing::IsNear;
using diptych::testing::number;
using diptych::testing::of_one;
using diptych::testing::random;
using diptych::testing::run;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using List = std::vector<std::int64_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// softmax of rows, where a row of -infinity is 0.
std::vector<double> softmax_rows(std::vector<double> x, std::size_t columns) {
  for (std::size_t row = 0; row < x.size(); row += columns) {
    double total = 0;
    for (std::size_t i = row; i < row + columns; ++i) {
      x[i] = std::exp(x[i]);
      total += x[i];
    }
    for (std::size_t i = row; i < row + columns; ++i) {
      x[i] = total > 0 ? x[i] / total : 0;
    }
  }
  return x;
}

TEST(LaterOperators, AttentionGivesItsScoresAtFourStages) {
  const Tensor q = random(1, {1, 1, 2, 4});
  const Tensor k = random(2, {1, 1, 3, 4});
  const Tensor v = random(3, {1, 1, 3, 2});
  const Tensor mask = Tensor::from({0.5, -kInfinity, 1.0, -kInfinity, -kInfinity, -kInfinity}, {2, 3});
  const double cap = 0.7;
  std::vector<std::vector<double>> stages(4);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      double product = 0;
      for (std::size_t e = 0; e < 4; ++e) {
        product += doubles(q)[i * 4 + e] * doubles(k)[j * 4 + e] / 2;
      }
      stages[0].push_back(product);
      stages[1].push_back(cap * std::tanh(product / cap));
      stages[2].push_back(stages[1].back() + doubles(mask)[i * 3 + j]);
    }
  }
  stages[3] = softmax_rows(stages[2], 3);
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    const std::vector<Tensor> results = run(
        "Attention", {q, k, v, mask}, {{"softcap", AttributeValue(cap)}, {"qk_matmul_output_mode", number(stage)}}, 4);
    EXPECT_THAT(doubles(results[3]), Pointwise(IsNear(1e-12), stages[static_cast<std::size_t>(stage)])) << stage;
    EXPECT_EQ(doubles(results[0])[2], 0);  // a row that sees nothing
  }
  // Integers are added, too.
  const Tensor whole = Tensor::from(List{1, 0, 2}, {1, 3});
  std::vector<double> scores = stages[0];
  for (std::size_t i = 0; i < 6; ++i) {
    scores[i] += i % 3 == 0 ? 1 : i % 3 == 2 ? 2 : 0;
  }
  EXPECT_THAT(doubles(run("Attention", {q, k, v, whole}, {{"qk_matmul_output_mode", number(3)}}, 4)[3]),
              Pointwise(IsNear(1e-12), softmax_rows(scores, 3)));
}

TEST(LaterOperators, AttentionLeavesOutTheCachesPadding) {
  const Tensor q = random(1, {2, 1, 2, 4});
  const Tensor k = random(2, {2, 1, 5, 4});
  const Tensor v = random(3, {2, 1, 5, 3});
  const Tensor valid = Tensor::from({std::int64_t{3}, std::int64_t{5}}, {2});
  for (const std::int64_t causal : {0, 1}) {
    const Tensor weights = run("Attention", {q, k, v, {}, {}, {}, valid},
                               {{"is_causal", number(causal)}, {"qk_matmul_output_mode", number(3)}}, 4)[3];
    const std::vector<double> p = doubles(weights);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const std::size_t column = i % 5;
      const std::size_t row = i / 5 % 2;
      const std::size_t length = i < 10 ? 3 : 5;
      // The rows are the last ones of what is valid.
      EXPECT_EQ(p[i] > 0, column < length && (causal == 0 || column <= length - 2 + row)) << i;
    }
  }
}

TEST(LaterOperators, RotaryEmbeddingTurnsPairs) {
  const double angle = 0.3;
  const Tensor cosine = full({4, 1}, std::cos(angle), DType::float64);
  const Tensor sine = full({4, 1}, std::sin(angle), DType::float64);
  const Tensor x = Tensor::from({1.0, 2.0, 3.0}, {1, 1, 1, 3});
  const Tensor place = Tensor::from({std::int64_t{2}}, {1, 1});
  const std::vector<double> wanted{std::cos(angle) - 2 * std::sin(angle), std::sin(angle) + 2 * std::cos(angle), 3};
  for (const std::int64_t interleaved : {0, 1}) {
    EXPECT_THAT(doubles(run("RotaryEmbedding", {x, cosine, sine, place},
                            {{"interleaved", number(interleaved)}, {"rotary_embedding_dim", number(2)}})[0]),
                Pointwise(IsNear(1e-12), wanted));
  }
  // Halves against neighbours, and heads side by side.
  const Tensor wide = Tensor::from({1.0, 2.0, 3.0, 4.0}, {1, 1, 4});
  const Tensor none = full({1, 1, 1}, 0, DType::float64);
  const Tensor quarter = full({1, 1, 1}, 1, DType::float64);
  EXPECT_THAT(doubles(run("RotaryEmbedding", {wide, none, quarter}, {{"num_heads", number(2)}})[0]),
              ElementsAre(-2, 1, -4, 3));
  const Tensor pair = full({1, 1, 2}, 0, DType::float64);
  const Tensor ones = full({1, 1, 2}, 1, DType::float64);
  EXPECT_THAT(doubles(run("RotaryEmbedding", {wide, pair, ones}, {{"num_heads", number(1)}})[0]),
              ElementsAre(-3, -4, 1, 2));
  EXPECT_THAT(
      doubles(run("RotaryEmbedding", {wide, pair, ones}, {{"num_heads", number(1)}, {"interleaved", number(1)}})[0]),
      ElementsAre(-2, 1, -4, 3));
  expect_gradients("RotaryEmbedding", {random(4, {1, 2, 1, 4}), random(5, {1, 1, 2}), random(6, {1, 1, 2})});
}

TEST(LaterOperators, SwishAndTensorScatter) {
  const Tensor x = Tensor::from({-2.0, 0.0, 1.5}, {3});
  std::vector<double> wanted;
  for (const double value : doubles(x)) {
    wanted.push_back(value / (1 + std::exp(-2 * value)));
  }
  EXPECT_THAT(doubles(run("Swish", {x}, {{"alpha", AttributeValue(2.0)}})[0]), Pointwise(IsNear(1e-12), wanted));
  const Tensor cache = full({2, 4, 1}, 0, DType::float64);
  const Tensor update = Tensor::from({1.0, 2.0, 3.0, 4.0}, {2, 2, 1});
  const Tensor first = Tensor::from({std::int64_t{1}, std::int64_t{3}}, {2});
  EXPECT_THAT(
      doubles(run("TensorScatter", {cache, update, first}, {{"mode", AttributeValue(std::string("circular"))}})[0]),
      ElementsAre(0, 1, 2, 0, 4, 0, 0, 3));
  EXPECT_THAT(doubles(run("TensorScatter", {cache, update})[0]), ElementsAre(1, 2, 0, 0, 3, 4, 0, 0));
}

TEST(LaterOperators, NothingHasExtremesAndNormsOfNothingHaveNoSlope) {
  const Tensor empty = full({2, 0}, 0, DType::float32);
  const Tensor axes = Tensor::from({std::int64_t{1}}, {1});
  EXPECT_THAT(doubles(run("ReduceMax", {empty, axes})[0]), ElementsAre(-kInfinity, -kInfinity));
  EXPECT_THAT(doubles(run("ReduceMin", {empty, axes})[0]), ElementsAre(kInfinity, kInfinity));
  const Tensor none = full({0}, 0, DType::int64);
  EXPECT_EQ(run("ReduceMin", {none})[0].to_vector<std::int64_t>()[0], INT64_MAX);
  EXPECT_EQ(run("ReduceMax", {none})[0].to_vector<std::int64_t>()[0], INT64_MIN);
  const Tensor x = Tensor::from({3.0, 4.0, 0.0, 0.0}, {2, 2});
  EXPECT_THAT(doubles(run("LpNormalization", {x})[0]), Pointwise(IsNear(1e-15), std::vector<double>{0.6, 0.8, 0, 0}));
  // The variance is 1: an eps of -0.75 leaves 0.25.
  const Tensor pair = Tensor::from({1.0, 3.0}, {1, 2});
  EXPECT_THAT(
      doubles(run("LayerNormalization", {pair, full({2}, 1, DType::float64)}, {{"epsilon", AttributeValue(-0.75)}})[0]),
      Pointwise(IsNear(1e-12), std::vector<double>{-2, 2}));
  for (const char* op : {"ReduceL2", "LpNormalization"}) {
    ImportedModel model = of_one(op, {x}).imported();
    const auto loss = [&](const Tensor& t) { return sum(model.call(std::vector<Tensor>{t})[0]); };
    for (const double slope : doubles(grad(loss)(x))) {
      EXPECT_TRUE(std::isfinite(slope)) << op;
    }
  }
  ImportedModel length = of_one("ReduceL2", {x}, {{"keepdims", number(0)}}).imported();
  const Tensor zero = full({2, 2}, 0, DType::float64);
  EXPECT_THAT(doubles(grad([&](const Tensor& t) { return sum(length.call(std::vector<Tensor>{t})[0]); })(zero)),
              Each(0));
}

TEST(LaterOperators, ScatterCombinesWhatMeets) {
  const Tensor x = Tensor::from({2.0, 3.0, 5.0}, {3});
  const Tensor index = Tensor::from({std::int64_t{1}, std::int64_t{-1}, std::int64_t{1}}, {3});
  const Tensor updates = Tensor::from({7.0, 1.0, -1.0}, {3});
  const auto with = [&](const char* reduction) {
    return Attributes{{"reduction", AttributeValue(std::string(reduction))}};
  };
  EXPECT_THAT(doubles(run("ScatterElements", {x, index, updates}, with("mul"))[0]), ElementsAre(2, -21, 5));
  EXPECT_THAT(doubles(run("ScatterElements", {x, index, updates}, with("max"))[0]), ElementsAre(2, 7, 5));
  EXPECT_THAT(doubles(run("ScatterElements", {x, index, updates}, with("min"))[0]), ElementsAre(2, -1, 1));
  const Tensor places = reshape(index, {3, 1});
  EXPECT_THAT(doubles(run("ScatterND", {x, places, updates}, with("min"))[0]), ElementsAre(2, -1, 1));
  const Tensor zeros = Tensor::from({0.0, 0.0, 5.0}, {3});
  for (const char* reduction : {"mul", "max", "min"}) {
    expect_gradients("ScatterElements", {x, index, updates}, with(reduction));
  }
  expect_gradients("ScatterElements", {zeros, index, updates}, with("mul"));
  expect_gradients("ScatterElements", {zeros, index, Tensor::from({0.0, 2.0, 3.0}, {3})}, with("mul"));
}

TEST(LaterOperators, PoolsWithGapsAndWidePadding) {
  const Tensor x = Tensor::from({1.0, 2.0, 4.0, 8.0, 16.0}, {1, 1, 5});
  EXPECT_THAT(doubles(run("AveragePool", {x}, {{"kernel_shape", List{2}}, {"dilations", List{2}}})[0]),
              ElementsAre(2.5, 5, 10));
  // Two of three elements of padding before: windows of 0, 1, 2 and then 3 elements; without any, 0.
  const Attributes wide{{"kernel_shape", List{3}}, {"pads", List{3, 0}}};
  EXPECT_THAT(doubles(run("AveragePool", {x}, wide)[0]),
              Pointwise(IsNear(1e-12), std::vector<double>{0, 1, 1.5, 7.0 / 3, 14.0 / 3, 28.0 / 3}));
  Attributes counted = wide;
  counted["count_include_pad"] = number(1);
  EXPECT_THAT(doubles(run("AveragePool", {x}, counted)[0]),
              Pointwise(IsNear(1e-12), std::vector<double>{0, 1.0 / 3, 1, 7.0 / 3, 14.0 / 3, 28.0 / 3}));
  // The last window of three starts inside and is cut off; what ceil mode adds doesn't count.
  const Attributes ceiling{
      {"kernel_shape", List{2}}, {"dilations", List{2}}, {"strides", List{2}}, {"ceil_mode", number(1)}};
  EXPECT_THAT(doubles(run("AveragePool", {x}, ceiling)[0]), ElementsAre(2.5, 10));
  EXPECT_THAT(doubles(run("LpPool", {x}, {{"kernel_shape", List{2}}, {"p", number(1)}})[0]), ElementsAre(3, 6, 12, 24));
  const std::vector<Tensor> found = run("MaxPool", {Tensor::from({5.0, 1.0, 2.0, 3.0, 9.0, 4.0}, {1, 1, 2, 3})},
                                        {{"kernel_shape", List{2, 2}}, {"storage_order", number(1)}}, 2);
  EXPECT_THAT(doubles(found[0]), ElementsAre(9, 9));
  EXPECT_THAT(doubles(found[1]), ElementsAre(3, 3));  // column 1, row 1 of 2 rows
}

TEST(LaterOperators, VolumesArePooledAndConvolved) {
  const Tensor x = random(1, {1, 2, 4, 3, 5});
  const Tensor weight = random(2, {4, 1, 2, 2, 3});
  const Tensor bias = random(3, {4});
  const Attributes attributes{
      {"group", number(2)}, {"pads", List{1, 0, 1, 2, 1, 0}}, {"strides", List{2, 1, 2}}, {"dilations", List{2, 1, 1}}};
  const Tensor y = run("Conv", {x, weight, bias}, attributes)[0];
  ASSERT_EQ(y.shape(), (Shape{1, 4, 3, 3, 2}));  // (4 + 3 - 3) / 2 + 1, 3 + 1 - 2 + 1, (5 + 1 - 3) / 2 + 1
  const std::vector<double> a = doubles(x);
  const std::vector<double> w = doubles(weight);
  std::vector<double> wanted;
  for (int o = 0; o < 4; ++o) {
    for (int d = 0; d < 3; ++d) {
      for (int r = 0; r < 3; ++r) {
        for (int c = 0; c < 2; ++c) {
          double total = doubles(bias)[static_cast<std::size_t>(o)];
          for (int kd = 0; kd < 2; ++kd) {
            for (int kr = 0; kr < 2; ++kr) {
              for (int kc = 0; kc < 3; ++kc) {
                const int depth = 2 * d + 2 * kd - 1;
                const int row = r + kr;
                const int column = 2 * c + kc - 1;
                if (depth >= 0 && depth < 4 && row >= 0 && row < 3 && column >= 0 && column < 5) {
                  total += a[static_cast<std::size_t>(((o / 2 * 4 + depth) * 3 + row) * 5 + column)] *
                           w[static_cast<std::size_t>(((o * 2 + kd) * 2 + kr) * 3 + kc)];
                }
              }
            }
          }
          wanted.push_back(total);
        }
      }
    }
  }
  EXPECT_THAT(doubles(y), Pointwise(IsNear(1e-12), wanted));
  const Tensor small = random(4, {1, 1, 3, 2, 3});
  const Tensor kernel = random(5, {1, 2, 2, 2, 2});
  expect_gradients("Conv", {random(6, {1, 1, 3, 3, 2}), random(7, {2, 1, 2, 2, 2}), random(8, {2})},
                   {{"pads", List{1, 0, 0, 0, 1, 0}}});
  expect_gradients("ConvTranspose", {small, kernel},
                   {{"strides", List{2, 1, 2}}, {"pads", List{1, 0, 0, 0, 0, 1}}, {"output_padding", List{1, 0, 0}}});
  // The transpose: <conv x, y> = <x, transposed conv y>
  const Tensor z = run("ConvTranspose", {small, kernel}, {{"strides", List{2, 1, 1}}})[0];
  const Tensor t = random(9, z.shape());
  const Tensor back = run("Conv", {t, kernel}, {{"strides", List{2, 1, 1}}})[0];
  EXPECT_NEAR(sum(mul(z, t)).item(), sum(mul(small, back)).item(), 1e-11);
  for (const char* op : {"MaxPool", "AveragePool"}) {
    expect_gradients(op, {small}, {{"kernel_shape", List{2, 2, 2}}, {"pads", List{1, 0, 1, 0, 1, 0}}});
  }
}

TEST(LaterOperators, RecurrentNetworksReverseAndStop) {
  const Tensor x = random(1, {4, 2, 3});
  const Attributes hidden{{"hidden_size", number(2)}};
  Attributes reverse = hidden;
  reverse["direction"] = std::string("reverse");
  const auto weights = [](std::int64_t gates) {
    return std::vector<Tensor>{random(2, {1, gates * 2, 3}), random(3, {1, gates * 2, 2}), random(4, {1, gates * 4})};
  };
  for (const auto& [op, gates] : {std::pair<const char*, std::int64_t>{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    SCOPED_TRACE(op);
    const std::vector<Tensor> w = weights(gates);
    const int outputs = gates == 4 ? 3 : 2;
    const std::vector<Tensor> back = run(op, {x, w[0], w[1], w[2]}, reverse, outputs);
    const std::vector<Tensor> forth = run(op, {flip(x, {0}), w[0], w[1], w[2]}, hidden, outputs);
    EXPECT_EQ(doubles(back[0]), doubles(flip(forth[0], {0})));
    EXPECT_EQ(doubles(back[1]), doubles(forth[1]));
    // The first sequence ends after two steps: the state of a run of two steps, and zeros.
    const Tensor lengths = Tensor::from({std::int32_t{2}, std::int32_t{4}}, {2});
    const std::vector<Tensor> stopped = run(op, {x, w[0], w[1], w[2], lengths}, hidden, outputs);
    const std::vector<Tensor> two = run(op, {slice(x, 0, 0, 2), w[0], w[1], w[2]}, hidden, outputs);
    EXPECT_EQ(doubles(select(stopped[1], 1, 0)), doubles(select(two[1], 1, 0)));
    EXPECT_THAT(doubles(select(slice(stopped[0], 0, 2, 4), 2, 0)), Each(0));
    expect_gradients(op, {random(5, {3, 1, 3}), w[0], w[1], w[2]}, hidden);
  }
  EXPECT_THAT(diptych::testing::refusal([&] {
                const std::vector<Tensor> w = weights(1);
                run("RNN", {full({30000, 1, 3}, 0, DType::float64), w[0], w[1]}, hidden);
              }),
              HasSubstr("30000 steps"));
}

TEST(LaterOperators, AnglesDeterminantsAndTransforms) {
  const Tensor x = Tensor::from({-1.0, -0.9, -1e-3, 0.0, 0.5, 0.99, 1.0}, {7});
  std::vector<double> arcsine;
  std::vector<double> arccosine;
  for (const double value : doubles(x)) {
    arcsine.push_back(std::asin(value));
    arccosine.push_back(std::acos(value));
  }
  EXPECT_THAT(doubles(run("Asin", {x})[0]), Pointwise(IsNear(1e-15), arcsine));
  EXPECT_THAT(doubles(run("Acos", {x})[0]), Pointwise(IsNear(1e-15), arccosine));
  const Tensor inside = Tensor::from({-0.9, 0.0, 0.3}, {3});
  for (const char* op : {"Asin", "Acos", "Atan"}) {
    expect_gradients(op, {inside});
  }
  // The pivot isn't in the first row: 0 3 / 2 1, and a singular matrix.
  const Tensor matrices = Tensor::from({0.0, 3.0, 2.0, 1.0, 1.0, 2.0, 2.0, 4.0}, {2, 2, 2});
  EXPECT_THAT(doubles(run("Det", {matrices})[0]), ElementsAre(-6, 0));
  expect_gradients("Det", {random(1, {2, 4, 4})});
  const Tensor signal = random(2, {1, 6, 2});
  const Tensor axis = Tensor::scalar(std::int64_t{1});
  const Tensor spectrum = run("DFT", {signal, {}, axis})[0];
  EXPECT_THAT(doubles(run("DFT", {spectrum, {}, axis}, {{"inverse", number(1)}})[0]),
              Pointwise(IsNear(1e-14), doubles(signal)));
  expect_gradients("DFT", {signal, Tensor::scalar(std::int64_t{4}), axis});
  EXPECT_THAT(diptych::testing::refusal([&] {
                run("DFT", {signal, Tensor::scalar(std::int64_t{1} << 40), axis});
              }),
              HasSubstr("the engine has 1 to"));
}

TEST(LaterOperators, GridsAreSampledWithGradients) {
  const Tensor x = random(1, {1, 2, 3, 4});
  const Tensor grid = mul(random(2, {1, 2, 3, 2}), full({}, 0.4, DType::float64));
  for (const char* mode : {"linear", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      SCOPED_TRACE(std::string(mode) + " " + padding);
      expect_gradients("GridSample", {x, grid}, {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}});
    }
  }
  // The middle of a volume of 2 x 2 x 2 is the mean of its elements.
  const Tensor volume = random(3, {1, 1, 2, 2, 2});
  EXPECT_NEAR(run("GridSample", {volume, full({1, 1, 1, 1, 3}, 0, DType::float64)})[0].item(), mean(volume).item(),
              1e-12);
}

// Recorded from PyTorch's affine_grid.
TEST(LaterOperators, AffineGridsAreSpreadOverAnImage) {
  const auto grid = [](const Tensor& theta, const List& size, std::int64_t aligned) {
    const Tensor lengths = Tensor::from(size, {static_cast<std::int64_t>(size.size())});
    return run("AffineGrid", {theta, lengths}, {{"align_corners", number(aligned)}})[0];
  };
  const Tensor plane = Tensor::from({0.8, 0.5, 0.1, -0.5, 0.8, -0.2}, {1, 2, 3});
  const Tensor borders = grid(plane, {1, 1, 2, 3}, 0);
  EXPECT_EQ(borders.shape(), (Shape{1, 2, 3, 2}));
  EXPECT_THAT(doubles(borders),
              Pointwise(IsNear(1e-14), std::vector<double>{-4.1 / 6, -1.6 / 6, -0.15, -0.6, 2.3 / 6, -5.6 / 6, -1.1 / 6,
                                                           3.2 / 6, 0.35, 0.2, 5.3 / 6, -0.8 / 6}));
  EXPECT_THAT(
      doubles(grid(plane, {1, 1, 2, 3}, 1)),
      Pointwise(IsNear(1e-14), std::vector<double>{-1.2, -0.5, -0.4, -1, 0.4, -1.5, -0.2, 1.1, 0.6, 0.6, 1.4, 0.1}));
  const Tensor volume = reshape(arange(0, 3, 0.25, DType::float64), {1, 3, 4});
  EXPECT_THAT(doubles(grid(volume, {1, 1, 2, 1, 2}, 0)),
              Pointwise(IsNear(1e-14), std::vector<double>{0.5, 0.5, 0.5, 0.5, 1.5, 2.5, 1, 2, 3, 1, 3, 5}));
  EXPECT_THAT(doubles(grid(volume, {1, 1, 2, 1, 2}, 1)),  // the only row is in the middle
              Pointwise(IsNear(1e-14),
                        std::vector<double>{0.25, -0.75, -1.75, 0.25, 1.25, 2.25, 1.25, 2.25, 3.25, 1.25, 4.25, 7.25}));
  EXPECT_THROW(grid(plane, {2, 1, 2, 3}, 0), ShapeError);
  EXPECT_THROW(grid(plane, {1, 1, 0, 3}, 0), ShapeError);
  EXPECT_THROW(grid(plane, {1, 1, std::int64_t{1} << 30, std::int64_t{1} << 30}, 0), ShapeError);
}

TEST(LaterOperators, SequencesHoldTensorsInsideAModel) {
  Builder builder(17);
  builder.input("x", DType::float64, {4})
      .constant("one", Tensor::scalar(std::int64_t{1}))
      .constant("three", Tensor::scalar(std::int64_t{3}))
      .node("SplitToSequence", {"x", "three"}, {"parts"})
      .node("SequenceInsert", {"parts", "x", "one"}, {"more"})
      .node("SequenceErase", {"more"}, {"less"})
      .node("SequenceAt", {"less", "one"}, {"second"})
      .node("ConcatFromSequence", {"more"}, {"all"}, {{"axis", number(0)}})
      .node("SequenceLength", {"less"}, {"length"})
      .output("second")
      .output("all")
      .output("length");
  ImportedModel model = builder.imported();
  const std::vector<Tensor> y = both(model, {Tensor::from({1.0, 2.0, 3.0, 4.0}, {4})});
  EXPECT_THAT(doubles(y[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(doubles(y[1]), ElementsAre(1, 2, 3, 1, 2, 3, 4, 4));
  EXPECT_EQ(y[2].item(), 2);
  const Tensor x = full({2}, 1);
  const auto refused = [&](const char* op) {
    return diptych::testing::refusal([&] {
      ImportedModel whole =
          Builder(17)
              .input("x", DType::float32, {2})
              .node("SequenceConstruct", {"x", "x"}, {"list"})
              .node(op,
                    std::string(op) == "Add" ? std::vector<std::string>{"x", "list"} : std::vector<std::string>{"list"},
                    {"y"})
              .output("y")
              .imported();
      whole.call(std::vector<Tensor>{x});
    });
  };
  EXPECT_THAT(refused("Relu"), HasSubstr("one of its inputs is a sequence"));
  EXPECT_THAT(refused("Add"), HasSubstr("one of its inputs is a sequence"));
}

TEST(LaterOperators, CentresAndRefusals) {
  const Tensor x = Tensor::from({1.0, 2.0, 3.0, 4.0, 5.0}, {5});
  const auto length = [](std::int64_t n) { return Tensor::from({n}, {1}); };
  EXPECT_THAT(doubles(run("CenterCropPad", {x, length(2)})[0]), ElementsAre(2, 3));
  EXPECT_THAT(doubles(run("CenterCropPad", {x, length(8)})[0]), ElementsAre(0, 1, 2, 3, 4, 5, 0, 0));
  EXPECT_THROW(run("CenterCropPad", {x, length(std::int64_t{1} << 60)}), ShapeError);
  EXPECT_THROW(run("AveragePool", {full({1, 1, 5}, 0)},
                   {{"kernel_shape", List{1 << 24}}, {"pads", List{1 << 24, 1 << 24}}, {"dilations", List{1 << 24}}}),
               ShapeError);
  EXPECT_THROW(run("HannWindow", {Tensor::scalar(std::int64_t{1} << 40)}), ShapeError);
}

}  // namespace
}  // namespace diptych::onnx
