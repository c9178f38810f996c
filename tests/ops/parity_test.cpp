// The numerics contract, op by op: every op on every sample gives the same bits in eager and in a graph (with and
// without passes), for values and gradients; and the same on every instruction set and number of threads.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/core/isa.h"
#include "tests/support/op_samples.h"
#include "tests/support/with_isa.h"
#include "tests/support/with_threads.h"

namespace diptych::testing {
namespace {

class Parity : public ::testing::TestWithParam<OpCase> {};

/// The op's result, then the gradients by its floating inputs of <result, cotangent>, with a cotangent that differs per
/// element.
std::vector<Tensor> values_and_gradients(const OpCase& c, std::span<const Tensor> inputs, const Tensor& cotangent) {
  std::vector<Tensor> results = {call(*c.op, inputs, c.sample.attributes)};
  if (!cotangent.defined()) {
    return results;
  }
  std::vector<Tensor> arguments(inputs.begin(), inputs.end());
  std::vector<std::size_t> positions;
  std::vector<Tensor> x;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (is_floating(inputs[i].dtype())) {
      positions.push_back(i);
      x.push_back(inputs[i]);
    }
  }
  auto function = [&](const std::vector<Tensor>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      arguments[positions[i]] = values[i];
    }
    return call(*c.op, arguments, c.sample.attributes);
  };
  const std::vector<Tensor> gradients = vjp(function, x).second(cotangent);
  results.insert(results.end(), gradients.begin(), gradients.end());
  return results;
}

Tensor cotangent_for(const OpCase& c, std::span<const Tensor> inputs) {
  const Tensor result = call(*c.op, inputs, c.sample.attributes);
  const bool differentiable =
      c.op->vjp != nullptr && is_floating(result.dtype()) &&
      std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return is_floating(t.dtype()); });
  return differentiable ? Rng(9).normal(result.shape(), 0, 1, result.dtype()) : Tensor();
}

void expect_same(const std::vector<Tensor>& expected, const std::vector<Tensor>& actual, const std::string& what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(expected[i], actual[i]))
        << what << ", result " << i << "\n  expected " << to_string(expected[i]) << "\n  actual   "
        << to_string(actual[i]);
  }
}

TEST_P(Parity, EagerAndGraphGiveTheSameBits) {
  const OpCase& c = GetParam();
  const std::vector<Tensor> inputs = make_inputs(c.sample);
  const Tensor cotangent = cotangent_for(c, inputs);
  const std::vector<Tensor> eager = values_and_gradients(c, inputs, cotangent);
  for (const bool optimised : {false, true}) {
    graph::JitOptions options;
    options.pipeline = optimised ? passes::PipelineOptions{} : passes::PipelineOptions::none();
    auto graph = jit(
        [&](const std::vector<Tensor>& arguments, const std::vector<Tensor>& cotangents) {
          return values_and_gradients(c, arguments, cotangents.empty() ? Tensor() : cotangents[0]);
        },
        options);
    const std::vector<Tensor> cotangents = cotangent.defined() ? std::vector<Tensor>{cotangent} : std::vector<Tensor>{};
    expect_same(eager, graph(inputs, cotangents), optimised ? "all passes, first call" : "no pass, first call");
    expect_same(eager, graph(inputs, cotangents), optimised ? "all passes, replay" : "no pass, replay");
  }
}

TEST_P(Parity, EveryInstructionSetGivesTheSameBits) {
  const OpCase& c = GetParam();
  const std::vector<Tensor> inputs = make_inputs(c.sample);
  const WithIsa restores(Isa::generic);
  const Tensor expected = call(*c.op, inputs, c.sample.attributes);
  for (int isa = 1; isa < kIsaCount && is_supported(static_cast<Isa>(isa)); ++isa) {
    set_isa(static_cast<Isa>(isa));
    expect_same({expected}, {call(*c.op, inputs, c.sample.attributes)},
                std::string(kIsaNames[static_cast<std::size_t>(isa)]));
  }
}

TEST_P(Parity, EveryNumberOfThreadsGivesTheSameBits) {
  const OpCase& c = GetParam();
  const std::vector<Tensor> inputs = make_inputs(c.sample);
  const Tensor cotangent = cotangent_for(c, inputs);
  const std::vector<Tensor> alone = values_and_gradients(c, inputs, cotangent);
  for (const int threads : {2, 3, 4}) {
    const WithThreads with(threads, true);
    expect_same(alone, values_and_gradients(c, inputs, cotangent), fmt::format("{} threads", threads));
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Parity, ::testing::ValuesIn(all_op_cases()),
                         [](const auto& instance) { return instance.param.name(); });

}  // namespace
}  // namespace diptych::testing
