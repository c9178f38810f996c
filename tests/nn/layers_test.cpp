// Layers against their formulas, written out in double; and in graphs, with their state.

#include <cmath>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"

namespace diptych::nn {
namespace {

using ::testing::HasSubstr;

std::vector<double> doubles(const Tensor& x) { return x.to_vector<double>(); }

void expect_near(const Tensor& actual, const std::vector<double>& expected, double tolerance) {
  const std::vector<double> values = doubles(actual);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << i;
  }
}

/// A row-major matrix of doubles: the reference's only type.
struct Matrix {
  std::size_t rows, columns;
  std::vector<double> at;
  double& operator()(std::size_t i, std::size_t j) { return at[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return at[i * columns + j]; }
};

Matrix affine(const Matrix& x, const Tensor& weight, const Tensor& bias) {
  const auto outputs = static_cast<std::size_t>(weight.shape()[1]);
  const Matrix w{x.columns, outputs, doubles(weight)};
  const std::vector<double> b = doubles(bias);
  Matrix y{x.rows, outputs, std::vector<double>(x.rows * outputs)};
  for (std::size_t i = 0; i < x.rows; ++i) {
    for (std::size_t j = 0; j < outputs; ++j) {
      y(i, j) = b[j];
      for (std::size_t k = 0; k < x.columns; ++k) {
        y(i, j) += x(i, k) * w(k, j);
      }
    }
  }
  return y;
}

/// One example: q[L, width], memory[S, width]; `allowed(i, j)`.
template <class Allowed>
Matrix attention_reference(const Variables& p, std::size_t heads, const Matrix& x, const Matrix& memory,
                           const Allowed& allowed) {
  const Matrix q = affine(x, p[0], p[1]);
  const Matrix k = affine(memory, p[2], p[3]);
  const Matrix v = affine(memory, p[4], p[5]);
  Matrix mixed{q.rows, q.columns, std::vector<double>(q.at.size())};
  const std::size_t width = q.columns / heads;
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t i = 0; i < q.rows; ++i) {
      std::vector<double> weight(k.rows, 0.0);
      double total = 0;
      for (std::size_t j = 0; j < k.rows; ++j) {
        double score = 0;
        for (std::size_t c = h * width; c < (h + 1) * width; ++c) {
          score += q(i, c) * k(j, c);
        }
        weight[j] = allowed(i, j) ? std::exp(score / std::sqrt(static_cast<double>(width))) : 0;
        total += weight[j];
      }
      for (std::size_t j = 0; j < k.rows; ++j) {
        for (std::size_t c = h * width; c < (h + 1) * width; ++c) {
          mixed(i, c) += weight[j] / total * v(j, c);
        }
      }
    }
  }
  return affine(mixed, p[6], p[7]);
}

Matrix example(const Tensor& x, std::size_t n) {
  const auto rows = static_cast<std::size_t>(x.shape()[1]);
  const auto columns = static_cast<std::size_t>(x.shape()[2]);
  const std::vector<double> all = doubles(x);
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(n * rows * columns);
  return {rows, columns, {begin, begin + static_cast<std::ptrdiff_t>(rows * columns)}};
}

/// Biases start as zeros; here they must matter.
void shake(const Variables& parameters, Rng& rng) {
  for (Variable parameter : parameters) {
    parameter.assign(rng.normal(parameter.type().shape, 0, 0.5, parameter.type().dtype));
  }
}

TEST(MultiHeadAttention, FollowsItsFormula) {
  Rng rng(1);
  const DType f64 = DType::float64;
  for (const bool causal : {false, true}) {
    MultiHeadAttention attention(6, 3, rng, {.is_causal = causal, .dtype = f64});
    shake(attention.parameters(), rng);
    const Tensor x = rng.normal({2, 4, 6}, 0, 1, f64);
    const Tensor y = attention(x);
    for (std::size_t n = 0; n < 2; ++n) {
      expect_near(slice(y, 0, static_cast<std::int64_t>(n), static_cast<std::int64_t>(n) + 1),
                  attention_reference(attention.parameters(), 3, example(x, n), example(x, n),
                                      [&](std::size_t i, std::size_t j) { return !causal || j <= i; })
                      .at,
                  1e-12);
    }
  }
}

TEST(MultiHeadAttention, CrossAttentionWithAMask) {
  Rng rng(2);
  const DType f64 = DType::float64;
  MultiHeadAttention attention(4, 2, rng, {.dtype = f64});
  shake(attention.parameters(), rng);
  const Tensor x = rng.normal({1, 3, 4}, 0, 1, f64);
  const Tensor memory = rng.normal({1, 5, 4}, 0, 1, f64);
  std::vector<bool> allowed;
  for (int i = 0; i < 15; ++i) {
    allowed.push_back(i % 5 == 0 || i % 3 != 0);
  }
  const Tensor mask = Tensor::from(allowed, {3, 5});
  for (const Mode how : {Mode::eager, Mode::graph}) {
    set_mode(how);
    expect_near(attention(x, memory, memory, mask),
                attention_reference(attention.parameters(), 2, example(x, 0), example(memory, 0),
                                    [&](std::size_t i, std::size_t j) { return allowed[i * 5 + j]; })
                    .at,
                1e-12);
    expect_near(attention(x, memory, memory),
                attention_reference(attention.parameters(), 2, example(x, 0), example(memory, 0),
                                    [](std::size_t, std::size_t) { return true; })
                    .at,
                1e-12);
  }
  set_mode(Mode::eager);
  EXPECT_THROW(MultiHeadAttention(6, 4, rng), Error);
  EXPECT_THROW(attention(zeros({1, 3, 5}, f64)), ShapeError);
  EXPECT_THROW(attention(zeros({3, 4}, f64)), ShapeError);
}

TEST(Conv2d, HasItsShapesAndStart) {
  Rng rng(1);
  Conv2d conv(4, 6, {3}, rng, {{.stride = {2}, .padding = {1}, .groups = 2}});
  EXPECT_EQ(conv.weight.type().shape, (Shape{6, 2, 3, 3}));
  EXPECT_EQ(conv(zeros({2, 4, 8, 9})).shape(), (Shape{2, 6, 4, 5}));
  const double bound = 1 / std::sqrt(18.0);  // 2 channels of 3 x 3
  EXPECT_LE(max(abs(conv.weight)).item(), bound);
  EXPECT_GT(max(abs(conv.weight)).item(), 0.9 * bound);
  EXPECT_EQ(Conv2d(1, 2, {3, 5}, rng, {.bias = false}).parameters().size(), 1U);
  EXPECT_EQ(Conv1d(3, 5, 4, rng)(zeros({2, 3, 10})).shape(), (Shape{2, 5, 7}));
  EXPECT_THROW(Conv2d(4, 6, {3}, rng, {{.groups = 4}}), Error);
  EXPECT_THROW(Conv2d(4, 6, {3, 3, 3}, rng), Error);
  EXPECT_THROW(Conv2d(4, 6, {0}, rng), Error);
  EXPECT_THROW(conv(zeros({2, 3, 8, 8})), ShapeError);
}

TEST(Conv2d, OfASumIsTheMeanTimesItsSize) {
  Rng rng(1);
  Conv2d conv(2, 1, {2}, rng, {.init = "ones", .bias_init = "constant(0.5)"});
  EXPECT_EQ(doubles(conv(ones({1, 2, 2, 3}))), (std::vector<double>{8.5, 8.5}));
}

TEST(Activation, ByName) {
  const Tensor x = Tensor::from({-1.0F, 2.0F}, {2});
  EXPECT_EQ(doubles((*activation_by_name("relu"))(x)), (std::vector<double>{0, 2}));
  EXPECT_EQ(doubles((*activation_by_name("identity"))(x)), (std::vector<double>{-1, 2}));
  EXPECT_TRUE(bitwise_equal((*activation_by_name("silu"))(x), silu(x)));
  EXPECT_EQ(doubles(LeakyReLU(0.5)(x)), (std::vector<double>{-0.5, 2}));
  try {
    activation_by_name("swish");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("gelu_tanh"));
  }
}

// ---- normalisation

TEST(BatchNorm, MovesItsStatisticsInTrainingAlone) {
  BatchNorm1d norm(1, {.eps = 0, .momentum = 0.25, .dtype = DType::float64});
  const Tensor x = Tensor::from({1.0, 3.0, 5.0, 7.0}, {4, 1});  // mean 4, variance 5, unbiased 20 / 3
  expect_near(norm(x), {-3 / std::sqrt(5.0), -1 / std::sqrt(5.0), 1 / std::sqrt(5.0), 3 / std::sqrt(5.0)}, 1e-12);
  expect_near(norm.running_mean, {1}, 1e-12);
  expect_near(norm.running_var, {0.75 + 0.25 * 20 / 3}, 1e-12);
  norm.eval();
  const double deviation = std::sqrt(0.75 + 0.25 * 20 / 3);
  expect_near(norm(x), {0, 2 / deviation, 4 / deviation, 6 / deviation}, 1e-12);
  expect_near(norm.running_mean, {1}, 1e-12);
  EXPECT_EQ(norm.buffers().size(), 2U);
  EXPECT_EQ(norm.parameters().size(), 2U);
  EXPECT_EQ(norm.buffers()[1].name(), "running_var");
}

TEST(BatchNorm, WithoutRunningStatisticsUsesTheBatchInEvalToo) {
  BatchNorm2d norm(2, {.affine = false, .track_running_stats = false});
  Rng rng(1);
  const Tensor x = rng.normal({3, 2, 4, 4}, 5, 2);
  const Tensor training = norm(x);
  norm.eval();
  EXPECT_TRUE(bitwise_equal(training, norm(x)));
  EXPECT_EQ(norm.state().size(), 0U);
  EXPECT_THROW(norm(zeros({3, 2})), ShapeError);
  EXPECT_THROW(BatchNorm1d(0), Error);
}

TEST(Normalisation, OfOneRow) {
  const Tensor x = Tensor::from({1.0, 3.0, 5.0, 7.0}, {1, 4});
  const double root5 = std::sqrt(5.0);
  const NormOptions exact{.eps = 0, .dtype = DType::float64};
  expect_near(LayerNorm({4}, exact)(x), {-3 / root5, -1 / root5, 1 / root5, 3 / root5}, 1e-12);
  expect_near(RMSNorm({4}, exact)(x),
              {1 / std::sqrt(21.0), 3 / std::sqrt(21.0), 5 / std::sqrt(21.0), 7 / std::sqrt(21.0)}, 1e-12);
  expect_near(GroupNorm(2, 4, exact)(x), {-1, 1, -1, 1}, 1e-12);
  EXPECT_EQ(LayerNorm({4}, {.bias = false}).parameters().size(), 1U);
  EXPECT_EQ(LayerNorm({4}, {.affine = false}).parameters().size(), 0U);
  EXPECT_THROW(GroupNorm(3, 4), Error);
  EXPECT_THROW(LayerNorm(Shape{}), Error);
}

// ---- dropout

TEST(Dropout, DropsInTrainingAlone) {
  const Generator generator(3);
  Dropout dropout(0.25, generator);
  const Tensor x = ones({10000});
  const Tensor y = dropout(x);
  EXPECT_NEAR(mean(equal(y, zeros({}))).item(), 0.25, 0.02);
  EXPECT_NEAR(max(y).item(), 1 / 0.75, 1e-6);
  EXPECT_FALSE(bitwise_equal(y, dropout(x)));
  dropout.eval();
  EXPECT_TRUE(bitwise_equal(x, dropout(x)));
  EXPECT_THROW(Dropout(1.5), Error);
  EXPECT_THROW(Dropout(std::nan("")), Error);
}

TEST(Dropout, DrawsAnewInEveryReplayTheSameAsInEager) {
  const Tensor x = ones({64});
  std::vector<Tensor> results[2];
  for (const bool graph : {false, true}) {
    Dropout dropout(0.5, Generator(5));
    set_mode(graph ? Mode::graph : Mode::eager);
    for (int i = 0; i < 4; ++i) {
      results[graph].push_back(dropout(x));
    }
    if (graph) {
      EXPECT_EQ(dropout.ledger()->size(), 1U);
    }
    set_mode(Mode::eager);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(bitwise_equal(results[0][i], results[1][i])) << i;
    EXPECT_FALSE(bitwise_equal(results[1][i], results[1][(i + 1) % 4]));
  }
}

// ---- pooling

TEST(Pooling, AsModules) {
  const Tensor x = Tensor::from({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F, 7.0F, 8.0F}, {1, 1, 2, 4});
  EXPECT_EQ(doubles(MaxPool2d({2})(x)), (std::vector<double>{6, 8}));
  EXPECT_EQ(doubles(AvgPool2d({2})(x)), (std::vector<double>{3.5, 5.5}));
  EXPECT_EQ(doubles(AdaptiveAvgPool2d({1, 2})(x)), (std::vector<double>{3.5, 5.5}));
  EXPECT_EQ(GlobalAvgPool2d()(x).item(), 4.5);
}

// ---- the transformer

class EncoderLayer : public ::testing::TestWithParam<bool> {};

TEST_P(EncoderLayer, FollowsItsFormula) {
  const bool norm_first = GetParam();
  Rng rng(4);
  TransformerEncoderLayer layer(4, 2, rng,
                                {.dim_feedforward = 7,
                                 .norm_first = norm_first,
                                 .attention = {.dtype = DType::float64},
                                 .linear = {.dtype = DType::float64}});
  layer.eval();
  shake(layer.parameters(), rng);
  const Variables all = layer.parameters();
  std::map<std::string, Variable> by_name;
  for (const auto& [name, variable] : layer.named_parameters()) {
    by_name.emplace(name, variable);
  }
  const Tensor x = rng.normal({1, 3, 4}, 0, 1, DType::float64);
  const auto norm = [&](const Matrix& m, const std::string& name) {
    const std::vector<double> weight = doubles(by_name.at(name + ".weight"));
    const std::vector<double> bias = doubles(by_name.at(name + ".bias"));
    Matrix y = m;
    for (std::size_t i = 0; i < m.rows; ++i) {
      double average = 0;
      double variance = 0;
      for (std::size_t j = 0; j < m.columns; ++j) {
        average += m(i, j) / static_cast<double>(m.columns);
      }
      for (std::size_t j = 0; j < m.columns; ++j) {
        variance += (m(i, j) - average) * (m(i, j) - average) / static_cast<double>(m.columns);
      }
      for (std::size_t j = 0; j < m.columns; ++j) {
        y(i, j) = (m(i, j) - average) / std::sqrt(variance + 1e-5) * weight[j] + bias[j];
      }
    }
    return y;
  };
  const auto plus = [](Matrix a, const Matrix& b) {
    for (std::size_t i = 0; i < a.at.size(); ++i) {
      a.at[i] += b.at[i];
    }
    return a;
  };
  const auto attend = [&](const Matrix& m) {
    return attention_reference({all.begin(), all.begin() + 8}, 2, m, m, [](std::size_t, std::size_t) { return true; });
  };
  const auto feed_forward = [&](const Matrix& m) {
    Matrix hidden = affine(m, by_name.at("linear1.weight"), by_name.at("linear1.bias"));
    for (double& value : hidden.at) {
      value = std::max(value, 0.0);
    }
    return affine(hidden, by_name.at("linear2.weight"), by_name.at("linear2.bias"));
  };
  const Matrix start = example(x, 0);
  Matrix expected = start;
  if (norm_first) {
    const Matrix attended = plus(start, attend(norm(start, "norm1")));
    expected = plus(attended, feed_forward(norm(attended, "norm2")));
  } else {
    const Matrix attended = norm(plus(start, attend(start)), "norm1");
    expected = norm(plus(attended, feed_forward(attended)), "norm2");
  }
  expect_near(layer(x), expected.at, 1e-11);
}

/// Dropout, layer norm, attention, a mask and Adam: one graph, the same bits as eager, in training and after eval().
TEST_P(EncoderLayer, TrainsWithTheSameBitsInEveryMode) {
  const Dims shape{2, 6, 8};
  std::vector<std::vector<Tensor>> results;
  for (const char* how : {"eager", "jit", "mode"}) {
    Rng rng(4);
    TransformerEncoderLayer layer(8, 2, rng,
                                  {.dim_feedforward = 16,
                                   .activation = "gelu",
                                   .norm_first = GetParam(),
                                   .is_causal = true,
                                   .generator = Generator(9)});
    optim::Adam adam(layer.parameters());
    auto loss = value_and_grad([&](const Tensor& x, const Tensor& mask) { return mean(square(layer(x, mask))); },
                               {.weights = layer.parameters()});
    const auto step = [&](const Tensor& x, const Tensor& mask) {
      const auto result = loss(x, mask);
      adam.step(result.weights);
      return result.value;
    };
    auto captured = jit(step);
    const Tensor mask = rng.normal({6, 6});
    std::vector<Tensor> result;
    set_mode(how[0] == 'm' ? Mode::graph : Mode::eager);
    for (int i = 0; i < 12; ++i) {
      layer.train(i % 6 < 4);
      const Tensor x = rng.normal(shape);
      result.push_back(how[0] == 'j' ? captured(x, mask) : step(x, mask));
    }
    set_mode(Mode::eager);
    if (how[0] == 'j') {
      EXPECT_EQ(captured.compiled()->ledger().size(), 2U) << "one for training, one for eval";
    }
    for (const Variable& variable : layer.parameters()) {
      result.push_back(variable);
    }
    results.push_back(std::move(result));
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(bitwise_equal(results[0][i], results[1][i])) << i;
    EXPECT_TRUE(bitwise_equal(results[0][i], results[2][i])) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Norm, EncoderLayer, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "first" : "after"; });

// ---- embedding

TEST(Embedding, GivesTheRowsOfItsWeight) {
  Rng rng(1);
  Embedding embedding(5, 3, rng, {.init = "normal(0.5)"});
  const Tensor y = embedding(Tensor::from({std::int64_t{4}, std::int64_t{0}}, {1, 2}));
  EXPECT_EQ(y.shape(), (Shape{1, 2, 3}));
  const std::vector<double> weight = doubles(embedding.weight);
  EXPECT_EQ(doubles(y), (std::vector<double>{weight[12], weight[13], weight[14], weight[0], weight[1], weight[2]}));
  EXPECT_THROW(embedding(Tensor::from({std::int64_t{5}}, {1})), Error);
  EXPECT_THROW(Embedding(0, 3, rng), Error);
}

/// A small language model comes near the entropy of the chain that made its tokens, in one graph.
TEST(Transformer, LearnsAMarkovChain) {
  const data::SyntheticTokens options{.count = 512, .length = 16, .vocabulary = 16, .successors = 2};
  struct Model : Module {
    explicit Model(Rng& rng)
        : embedding(
              add("embedding", std::make_shared<Embedding>(16, 24, rng, EmbeddingOptions{.init = "normal(0.5)"}))),
          layer(add("layer", std::make_shared<TransformerEncoderLayer>(
                                 24, 2, rng,
                                 TransformerEncoderLayerOptions{
                                     .dim_feedforward = 48, .dropout = 0, .norm_first = true, .is_causal = true}))),
          head(add("head", std::make_shared<Linear>(24, 16, rng))) {}
    Tensor forward(const Tensor& tokens) override { return (*head)((*layer)((*embedding)(tokens))); }
    std::shared_ptr<Embedding> embedding;
    std::shared_ptr<TransformerEncoderLayer> layer;
    std::shared_ptr<Linear> head;
  };
  Rng rng(2);
  Model model(rng);
  optim::AdamW adam(model.parameters(), {.lr = 5e-3});
  auto loss = value_and_grad(
      [&](const Tensor& x, const Tensor& y) {
        return cross_entropy(reshape(model(x), {-1, 16}), reshape(y, {-1}));
      },
      {.weights = model.parameters()});
  auto step = jit([&](const Tensor& x, const Tensor& y) {
    const auto result = loss(x, y);
    adam.step(optim::clip_grad_norm(result.weights, 1).gradients);
    return result.value;
  });
  data::Batches batches(data::synthetic_tokens(options), 32, 1);
  double average = 0;
  for (int i = 0; i < 200; ++i) {
    const data::Dataset batch = batches[i];
    const double value = step(batch.inputs, batch.labels).item();
    average += i >= 180 ? value / 20 : 0;
  }
  const double best = data::synthetic_token_entropy(options);  // log 2, against log 16 for guessing
  EXPECT_LT(average, best + 0.1);
  EXPECT_GT(average, best - 0.05) << "nobody can be better than the chain";
  EXPECT_EQ(step.compiled()->ledger().size(), 1U);
}

}  // namespace
}  // namespace diptych::nn
