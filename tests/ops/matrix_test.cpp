// What must hold for every op of the registry, whatever it computes: strided inputs, zero-length axes, every element
// type, and wrong calls. Where an op refuses, eager and graph refuse alike, with an Error and never with a crash.

#include <gtest/gtest.h>

#include "tests/support/op_samples.h"

namespace diptych::testing {
namespace {

class Matrix : public ::testing::TestWithParam<OpCase> {
 protected:
  /// The result, or the message of the Error.
  static std::pair<Tensor, std::string> outcome(const std::function<Tensor()>& run) {
    try {
      return {run(), ""};
    } catch (const Error& error) {
      return {Tensor(), error.what()};
    }
  }

  void expect_modes_agree(const std::vector<Tensor>& inputs, const std::string& what) {
    const OpCase& c = GetParam();
    const auto [eager, refusal] = outcome([&] { return call(*c.op, inputs, c.sample.attributes); });
    auto compiled = jit([&](const std::vector<Tensor>& x) { return call(*c.op, x, c.sample.attributes); });
    const auto [graph, graph_refusal] = outcome([&] { return compiled(inputs); });
    EXPECT_EQ(refusal, graph_refusal) << what;
    if (!eager.defined() || !graph.defined()) {
      EXPECT_NE(refusal.find(c.op->name), std::string::npos) << what << " must name the op: " << refusal;
      return;
    }
    EXPECT_TRUE(bitwise_equal(eager, graph)) << what << "\n" << to_string(eager) << "\n" << to_string(graph);
  }
};

/// The same elements with other strides: every second element of a longer axis, or the last two axes exchanged.
Tensor strided(const Tensor& x, bool exchange) {
  if (exchange && x.rank() >= 2) {
    return transpose(contiguous(transpose(x)));
  }
  if (x.rank() == 0) {
    return x;
  }
  Shape doubled = x.shape();
  doubled.push_back(2);
  const int last = x.rank();
  const Tensor twice = contiguous(expand(unsqueeze(x, last), doubled));
  return select(twice, last, 1);
}

TEST_P(Matrix, StridesDontMatter) {
  const OpCase& c = GetParam();
  const std::vector<Tensor> inputs = make_inputs(c.sample);
  const Tensor expected = call(*c.op, inputs, c.sample.attributes);
  for (const bool exchange : {false, true}) {
    std::vector<Tensor> moved;
    for (const Tensor& input : inputs) {
      moved.push_back(strided(input, exchange));
    }
    const Tensor actual = call(*c.op, moved, c.sample.attributes);
    EXPECT_TRUE(bitwise_equal(expected, actual)) << to_string(expected) << "\n" << to_string(actual);
    expect_modes_agree(moved, exchange ? "exchanged axes" : "every second element");
  }
}

TEST_P(Matrix, ZeroLengthAxesAreFineOrRefused) {
  const OpCase& c = GetParam();
  const std::vector<Tensor> inputs = make_inputs(c.sample);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (int axis = 0; axis < inputs[i].rank(); ++axis) {
      std::vector<Tensor> emptied = inputs;
      emptied[i] = slice(inputs[i], axis, 0, 0);
      expect_modes_agree(emptied, "input " + std::to_string(i) + " axis " + std::to_string(axis));
      // All inputs with this length on this axis: where they belong together.
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        if (axis < inputs[k].rank() && inputs[k].shape()[axis] == inputs[i].shape()[axis]) {
          emptied[k] = slice(inputs[k], axis, 0, 0);
        }
      }
      expect_modes_agree(emptied, "axis " + std::to_string(axis) + " of all");
    }
  }
}

TEST_P(Matrix, EveryElementTypeIsFineOrRefused) {
  const OpCase& c = GetParam();
  const std::vector<Tensor> inputs = make_inputs(c.sample);
  for (int i = 0; i < kDTypeCount; ++i) {
    std::vector<Tensor> casted;
    for (const Tensor& input : inputs) {
      casted.push_back(cast(input, static_cast<DType>(i)));
    }
    expect_modes_agree(casted, "all " + std::string(name_of(static_cast<DType>(i))));
    if (!inputs.empty()) {
      casted = inputs;
      casted[0] = cast(inputs[0], static_cast<DType>(i));
      expect_modes_agree(casted, "the first " + std::string(name_of(static_cast<DType>(i))));
    }
  }
}

TEST_P(Matrix, WrongCallsAreRefused) {
  const OpCase& c = GetParam();
  const std::vector<Tensor> inputs = make_inputs(c.sample);
  std::vector<Tensor> wrong = inputs;
  while (wrong.size() <= static_cast<std::size_t>(c.op->inputs)) {
    wrong.push_back(full({}, 1));
  }
  expect_modes_agree(wrong, "an input too many");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    wrong = inputs;
    wrong[i] = Tensor();
    const std::string refusal = outcome([&] { return call(*c.op, wrong, c.sample.attributes); }).second;
    EXPECT_NE(refusal.find("undefined"), std::string::npos) << refusal;
    wrong = inputs;
    wrong[i] = unsqueeze(inputs[i], 0);
    expect_modes_agree(wrong, "an axis too many");
    if (inputs[i].rank() > 0) {
      wrong[i] = select(inputs[i], 0, 0);
      expect_modes_agree(wrong, "an axis too few");
    }
  }
}

std::vector<OpCase> cases_with_elements() {
  std::vector<OpCase> cases;
  for (OpCase& c : all_op_cases()) {
    const bool empty = std::any_of(c.sample.inputs.begin(), c.sample.inputs.end(),
                                   [](const SampleInput& input) { return input.type.shape.product() == 0; });
    if (!empty) {
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ops, Matrix, ::testing::ValuesIn(cases_with_elements()),
                         [](const auto& instance) { return instance.param.name(); });

}  // namespace
}  // namespace diptych::testing
