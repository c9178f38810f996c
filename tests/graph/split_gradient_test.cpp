// Where the graph of a function and its gradient is cut.

#include "framework/transforms/split_gradient.h"

#include <algorithm>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/capture/graph_function.h"
#include "framework/dispatch/op.h"
#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::wave;
using ::testing::ElementsAre;

std::vector<std::string> names_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) {
    names.emplace_back(node.op->name);
  }
  return names;
}

std::vector<std::string> inputs_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Input& input : graph.inputs) {
    names.push_back(input.name);
  }
  return names;
}

/// y = tanh(x w), dx = (c * (1 - y^2)) w^T.
const char* const kDense =
    R"(graph "g"(%0: f32[8,4] argument "x", %1: f32[4,16] argument "w", %2: f32[8,16] argument "c") {
  %3: f32[8,16] = matmul(%0, %1)
  %4: f32[8,16] = tanh(%3)
  %5: f32[8,16] = square(%4)
  %6: f32[8,16] = mul(%2, %5)
  %7: f32[8,16] = sub(%2, %6)
  %8: f32[16,4] = permute(%1) {axes=[1,0]}
  %9: f32[8,4] = matmul(%7, %8)
  return %4, %9
})";

TEST(SplitGradient, SavesWhatIsExpensiveAndComputesTheRestAgain) {
  const auto split = split_gradient(parse(kDense), 2, 1);
  verify(split.forward);
  verify(split.backward);
  EXPECT_THAT(names_of(split.forward), ElementsAre("matmul", "tanh"));
  // tanh is saved, although square's result would do: that is cheap, and the result is at hand.
  EXPECT_THAT(names_of(split.backward), ElementsAre("square", "mul", "sub", "permute", "matmul"));
  EXPECT_THAT(inputs_of(split.backward), ElementsAre("x", "w", "saved4", "c"));
  EXPECT_EQ(split.saved_bytes, 8U * 16 * 4);
}

TEST(SplitGradient, CutsWhereTheFewestBytesAre) {
  // A row is expanded before it is read by the backward pass: the row is saved.
  const auto split = split_gradient(parse(R"(graph "g"(%0: f32[64] argument "x", %1: f32[100,64] argument "c") {
  %2: f32[64] = exp(%0)
  %3: f32[100,64] = expand(%2) {shape=[100,64]}
  %4: f32[100,64] = neg(%3)
  %5: f32[100,64] = mul(%1, %4)
  %6: f32[64] = sum(%5) {axes=[0]}
  return %4, %6
})"),
                                    1, 1);
  EXPECT_EQ(split.saved_bytes, 64U * 4);
  EXPECT_THAT(names_of(split.backward), ElementsAre("expand", "neg", "mul", "sum"));
}

TEST(SplitGradient, InputsAreAtHand) {
  const auto split = split_gradient(parse(R"(graph "g"(%0: f32[64] argument "x", %1: f32[64] argument "c") {
  %2: f32[64] = neg(%0)
  %3: f32[64] = mul(%1, %2)
  return %2, %3
})"),
                                    1, 1);
  EXPECT_EQ(split.saved_bytes, 0U);
}

/// A joint graph of rows and matrices, drawn: some of the forward values are read by the backward part.
struct RandomJoint {
  struct Node {
    bool is_cheap = false, is_row = false;
    std::vector<std::size_t> inputs;  ///< 0: the row x, 1: the matrix y; then nodes
  };
  std::vector<Node> nodes;
  std::set<std::size_t> read;  ///< by the backward part, numbered as inputs are
  std::string text;

  static constexpr std::size_t kRowBytes = 16, kMatrixBytes = 48;

  explicit RandomJoint(std::mt19937& random) {
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
    std::vector<bool> is_row{true, false};
    std::string lines;
    const auto name = [](std::size_t value) { return "%" + std::to_string(value < 2 ? value : value + 1); };
    const auto type = [](bool row) { return std::string(row ? "f32[4]" : "f32[3,4]"); };
    for (std::size_t count = 2 + below(9); count > 0; --count) {
      Node node;
      const std::size_t a = below(is_row.size());
      node.inputs = {a};
      node.is_row = is_row[a];
      std::string call;
      switch (below(5)) {
        case 0:
          call = "exp(" + name(a) + ")";
          break;
        case 1:
          node.is_cheap = true;
          call = "neg(" + name(a) + ")";
          break;
        case 2:
          node.is_cheap = true;
          node.inputs.push_back(below(is_row.size()));
          node.is_row = is_row[a] && is_row[node.inputs[1]];
          call = "add(" + name(a) + ", " + name(node.inputs[1]) + ")";
          break;
        case 3:  // a view of a row, a sum of a matrix: neither way back
          node.is_cheap = is_row[a];
          node.is_row = !is_row[a];
          call =
              is_row[a] ? "expand(" + name(a) + ") {shape=[3,4]}" : "sum(" + name(a) + ") {axes=[0], keepdims=false}";
          break;
        default:
          node.is_cheap = true;
          node.inputs.push_back(is_row.size() - 1);
          node.is_row = is_row[a] && is_row.back();
          call = "mul(" + name(a) + ", " + name(node.inputs[1]) + ")";
      }
      lines += "  " + name(is_row.size()) + ": " + type(node.is_row) + " = " + call + "\n";
      is_row.push_back(node.is_row);
      nodes.push_back(node);
    }
    std::size_t next = is_row.size();
    std::string gradients;
    for (std::size_t value = 0; value < is_row.size(); ++value) {
      if (below(3) == 0 || (read.empty() && value + 1 == is_row.size())) {
        read.insert(value);
        lines += "  " + name(next) + ": f32[3,4] = mul(%2, " + name(value) + ")\n";
        gradients += ", " + name(next++);
      }
    }
    text = "graph \"g\"(%0: f32[4] argument \"x\", %1: f32[3,4] argument \"y\", %2: f32[3,4] argument \"c\") {\n" +
           lines + "  return " + name(is_row.size() - 1) + gradients + "\n}";
  }

  /// Bytes, and one for each tensor: the fewest of all sets of values from which cheap ops lead to what is read.
  std::size_t least() const {
    std::size_t least = SIZE_MAX;
    for (std::size_t saved = 0; saved < std::size_t{1} << nodes.size(); ++saved) {
      std::size_t size = 0;
      std::vector<bool> there{true, true};
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        const bool is_saved = (saved >> i & 1U) != 0;
        size += is_saved ? (nodes[i].is_row ? kRowBytes : kMatrixBytes) + 1 : 0;
        there.push_back(is_saved ||
                        (nodes[i].is_cheap && std::all_of(nodes[i].inputs.begin(), nodes[i].inputs.end(),
                                                          [&](std::size_t input) { return bool(there[input]); })));
      }
      if (std::all_of(read.begin(), read.end(), [&](std::size_t value) { return bool(there[value]); })) {
        least = std::min(least, size);
      }
    }
    return least;
  }
};

TEST(SplitGradient, NoCutSavesLessOfRandomGraphs) {
  std::mt19937 random(5);
  std::size_t saving = 0;
  for (int i = 0; i < 2000; ++i) {
    const RandomJoint joint(random);
    SCOPED_TRACE(joint.text);
    const Graph graph = parse(joint.text);
    const auto split = split_gradient(graph, 2, 1);
    verify(split.forward);
    verify(split.backward);
    const std::size_t tensors = split.forward.outputs.size() - 1;
    ASSERT_EQ(split.saved_bytes + tensors, joint.least());
    saving += tensors > 0 ? 1 : 0;

    const std::vector<Tensor> inputs{wave({4}, 1), wave({3, 4}, 2)};
    const Tensor cotangent = wave({3, 4}, 3);
    const std::vector<Tensor> all{inputs[0], inputs[1], cotangent};
    std::vector<Tensor> actual = GraphFunction(split.forward, {}, {})(inputs);
    std::vector<Tensor> given = inputs;
    given.insert(given.end(), actual.begin() + 1, actual.end());
    given.push_back(cotangent);
    actual.resize(1);
    for (const Tensor& gradient : GraphFunction(split.backward, {}, {})(given)) {
      actual.push_back(gradient);
    }
    expect_same_bits(actual, GraphFunction(graph, {}, {})(all), "both parts");
  }
  EXPECT_GT(saving, 1000U);
}

}  // namespace
}  // namespace diptych::graph
