// Activation functions of RNN, GRU and LSTM: "alpha and beta are consumed in the order of activation functions".
// Networks of one input and one cell, beside the formulas of the specification in double.

#include <array>
#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "tests/onnx/one_node.h"

namespace diptych::onnx {
namespace {

using diptych::testing::Attributes;
using diptych::testing::doubles;
using diptych::testing::expect_gradients;
using diptych::testing::IsNear;
using diptych::testing::random;
using diptych::testing::run;
using ::testing::Pointwise;

using Real = std::function<double(double)>;
using Names = std::vector<std::string>;
using Reals = std::vector<double>;

const Real kTanh = [](double x) { return std::tanh(x); };
const Real kSigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
Real leaky(double alpha) {
  return [=](double x) { return x < 0 ? alpha * x : x; };
}
Real hard_sigmoid(double alpha, double beta) {
  return [=](double x) { return std::min(std::max(alpha * x + beta, 0.0), 1.0); };
}
Real scaled(double alpha, double beta) {
  return [=](double x) { return alpha * std::tanh(beta * x); };
}
Real affine(double alpha, double beta) {
  return [=](double x) { return alpha * x + beta; };
}
Real elu_of(double alpha) {
  return [=](double x) { return x < 0 ? alpha * (std::exp(x) - 1) : x; };
}
Real thresholded(double alpha) {
  return [=](double x) { return x >= alpha ? x : 0; };
}

constexpr int kLength = 4;

/// One direction: its gates' weights of input and state, and its functions; the state after each step.
Reals states(const Reals& x, const Reals& w, const Reals& r, const std::vector<Real>& f, bool backward) {
  Reals rows(x.size());
  double h = 0;
  double c = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t t = backward ? x.size() - 1 - i : i;
    const auto sum = [&](std::size_t gate) { return w[gate] * x[t] + r[gate] * h; };
    if (w.size() == 1) {
      h = f[0](sum(0));
    } else if (w.size() == 3) {
      const double update = f[0](sum(0));
      const double reset = f[0](sum(1));
      const double fresh = f[1](w[2] * x[t] + r[2] * (reset * h));
      h = (1 - update) * fresh + update * h;
    } else {
      const double input = f[0](sum(0));
      const double output = f[0](sum(1));
      const double forget = f[0](sum(2));
      c = forget * c + input * f[1](sum(3));
      h = output * f[2](c);
    }
    rows[t] = h;
  }
  return rows;
}

struct FunctionsCase {
  const char* op;
  Names names;  ///< of one direction or of both
  Reals alphas, betas;
  std::vector<Real> functions;  ///< as many
};

TEST(RecurrentFunctions, ConsumeAlphaAndBetaInOrder) {
  const std::vector<FunctionsCase> cases{
      {"RNN", {"Tanh", "LeakyRelu"}, {0.3}, {}, {kTanh, leaky(0.3)}},
      {"RNN", {"LeakyRelu", "Tanh"}, {0.3}, {}, {leaky(0.3), kTanh}},
      {"RNN", {"LeakyRelu", "Elu"}, {0.3}, {}, {leaky(0.3), elu_of(1)}},
      {"RNN", {"Tanh", "Affine"}, {0.4}, {0.1}, {kTanh, affine(0.4, 0.1)}},
      // As Keras 3 writes its hard_sigmoid.
      {"GRU",
       {"HardSigmoid", "Tanh", "HardSigmoid", "Tanh"},
       {1.0 / 6, 1.0 / 6},
       {0.5, 0.5},
       {hard_sigmoid(1.0 / 6, 0.5), kTanh, hard_sigmoid(1.0 / 6, 0.5), kTanh}},
      {"GRU", {"Sigmoid", "ScaledTanh"}, {1.7}, {0.6}, {kSigmoid, scaled(1.7, 0.6)}},
      {"GRU", {"LeakyRelu", "Affine"}, {0.2, 0.5}, {0.25}, {leaky(0.2), affine(0.5, 0.25)}},
      {"LSTM", {"Sigmoid", "ScaledTanh", "Tanh"}, {1.7}, {0.6}, {kSigmoid, scaled(1.7, 0.6), kTanh}},
      {"LSTM", {"Sigmoid", "Elu", "ThresholdedRelu"}, {0.7, 0.05}, {}, {kSigmoid, elu_of(0.7), thresholded(0.05)}},
      {"LSTM",
       {"HardSigmoid", "Tanh", "ScaledTanh", "Sigmoid", "LeakyRelu", "Tanh"},
       {0.3, 1.2, 0.1},
       {0.4, 0.9},
       {hard_sigmoid(0.3, 0.4), kTanh, scaled(1.2, 0.9), kSigmoid, leaky(0.1), kTanh}},
      // Where values are left over or missing: the rest, and the defaults.
      {"GRU", {"Sigmoid", "Tanh"}, {0.2, 0.3}, {0.9}, {kSigmoid, kTanh}},
      {"LSTM", {"HardSigmoid", "Tanh", "ScaledTanh"}, {0.3}, {}, {hard_sigmoid(0.3, 0.5), kTanh, scaled(1, 1)}}};
  for (const FunctionsCase& c : cases) {
    SCOPED_TRACE(c.op + (" " + c.names[0]) + " " + c.names.back());
    const std::int64_t gates = c.op == std::string("RNN") ? 1 : c.op == std::string("GRU") ? 3 : 4;
    const std::int64_t each = std::max<std::int64_t>(gates - 1, 1);
    const std::int64_t directions = static_cast<std::int64_t>(c.names.size()) / each;
    const Tensor x = random(1, {kLength, 1, 1});
    const Tensor w = random(2, {directions, gates, 1});
    const Tensor r = random(3, {directions, gates, 1});
    Attributes attributes{{"hidden_size", AttributeValue(std::int64_t{1})},
                          {"direction", AttributeValue(std::string(directions == 2 ? "bidirectional" : "forward"))},
                          {"activations", AttributeValue(c.names)},
                          {"activation_alpha", AttributeValue(c.alphas)}};
    if (!c.betas.empty()) {
      attributes["activation_beta"] = AttributeValue(c.betas);
    }
    Reals wanted(static_cast<std::size_t>(kLength * directions));
    for (std::int64_t d = 0; d < directions; ++d) {
      const auto first = c.functions.begin() + static_cast<std::ptrdiff_t>(d * each);
      const Reals rows = states(doubles(x), doubles(select(w, 0, d)), doubles(select(r, 0, d)),
                                {first, first + static_cast<std::ptrdiff_t>(each)}, d == 1);
      for (std::size_t t = 0; t < rows.size(); ++t) {
        wanted[t * static_cast<std::size_t>(directions) + static_cast<std::size_t>(d)] = rows[t];
      }
    }
    EXPECT_THAT(doubles(run(c.op, {x, w, r}, attributes)[0]), Pointwise(IsNear(1e-13), wanted));
  }
}

}  // namespace
}  // namespace diptych::onnx
