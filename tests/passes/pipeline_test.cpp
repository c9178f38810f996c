#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/dispatch/op.h"
#include "tests/graph/variants.h"

namespace diptych::passes {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::f32;
using diptych::testing::message_of;
using diptych::testing::ramp;
using diptych::testing::wave;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

graph::Graph captured(const std::function<std::vector<Tensor>(const Tensor&)>& fn, const Tensor& x) {
  auto function = jit(fn, {.pipeline = PipelineOptions::none()});
  function(x);
  return *function.compiled()->graph();
}

std::vector<std::string> ops_of(const graph::Graph& graph) {
  std::vector<std::string> ops;
  for (const graph::Node& node : graph.nodes) {
    ops.emplace_back(node.op->name);
  }
  return ops;
}

TEST(Cse, ComputesEqualExpressionsOnceAndKeepsTheirSources) {
  graph::Graph graph = captured(
      [](const Tensor& x) {
        return std::vector<Tensor>{exp(x) + exp(x), neg(exp(x))};
      },
      ramp({3}));
  EXPECT_TRUE(eliminate_common_subexpressions(graph, PassContext(graph)));
  graph::verify(graph);
  EXPECT_THAT(ops_of(graph), ElementsAre("exp", "add", "neg"));
  EXPECT_THAT(graph.nodes[0].provenance.source_ops, ElementsAre(0, 1, 3));
  EXPECT_FALSE(eliminate_common_subexpressions(graph, PassContext(graph)));
}

TEST(Cse, FollowsChains) {
  graph::Graph graph = captured(
      [](const Tensor& x) {
        return std::vector<Tensor>{neg(exp(x + 1)), neg(exp(x + 1))};
      },
      ramp({3}));
  EXPECT_TRUE(eliminate_common_subexpressions(graph, PassContext(graph)));
  EXPECT_EQ(graph.nodes.size(), 4U);
  EXPECT_EQ(graph.outputs[0], graph.outputs[1]);
}

TEST(Cse, KeepsApartWhatDiffersInOneAttributeBit) {
  graph::Graph graph = captured(
      [](const Tensor& x) {
        return std::vector<Tensor>{
            x + full({}, 0.0), x + full({}, -0.0), sum(x, {0}), sum(x, {0}, true), transpose(reshape(x, {1, 3})),
            reshape(x, {3, 1})};
      },
      ramp({3}));
  EXPECT_FALSE(eliminate_common_subexpressions(graph, PassContext(graph)));
}

TEST(Cse, DoesNotConfuseTheOrderOfInputs) {
  const auto program = [](const Tensor& x) { return (x - exp(x)) * (exp(x) - x); };
  auto function = jit(program);
  expect_same_bits(function(ramp({3})), program(ramp({3})), "x - y and y - x");
  EXPECT_EQ(function.compiled()->graph()->nodes.size(), 4U);
}

TEST(Dce, DropsWhatNobodyReads) {
  graph::Graph graph = captured(
      [](const Tensor& x) {
        const Tensor unused = exp(neg(x) * 3);
        return std::vector<Tensor>{x + 1};
      },
      ramp({3}));
  EXPECT_TRUE(eliminate_dead_code(graph, PassContext(graph)));
  graph::verify(graph);
  EXPECT_THAT(ops_of(graph), ElementsAre("full", "add"));
  EXPECT_FALSE(eliminate_dead_code(graph, PassContext(graph)));
}

TEST(Dce, KeepsTheSignatureAndTheUpdates) {
  Variable read(f32({1}, {1}), "read");
  Variable written(f32({1}, {1}), "written");
  auto function = jit([&](const Tensor& x, const Tensor& y) {
    const Tensor unused = read.value() + y;
    written.assign(exp(x));
    return std::vector<Tensor>{};
  });
  function(f32({2}, {1}), f32({3}, {1}));
  const graph::Graph& graph = *function.compiled()->graph();
  EXPECT_THAT(ops_of(graph), ElementsAre("exp"));
  ASSERT_EQ(graph.inputs.size(), 4U);
  EXPECT_EQ(graph.updates.size(), 1U);
  expect_same_bits(written.value(), exp(f32({2}, {1})), "written");
  function(f32({2}, {1}), f32({3}, {1}));
}

TEST(ConstantFolding, ComputesWhatDependsOnConstantsAlone) {
  graph::Graph graph = captured(
      [](const Tensor& x) {
        return std::vector<Tensor>{x * exp(full({3}, 0.5) + 1), sum(full({3}, 2.0))};
      },
      ramp({3}));
  EXPECT_TRUE(fold_constants(graph, PassContext(graph)));
  graph::verify(graph);
  EXPECT_THAT(ops_of(graph), ElementsAre("mul"));
  EXPECT_FALSE(fold_constants(graph, PassContext(graph)));
  eliminate_dead_code(graph, PassContext(graph));
  ASSERT_EQ(graph.constants.size(), 2U);
  expect_same_bits(graph.constants[0].second, exp(full({3}, 1.5)), "the same kernel, the same bits");
}

TEST(ConstantFolding, LeavesViewsAlone) {
  graph::Graph graph = captured(
      [](const Tensor& x) {
        return std::vector<Tensor>{x * transpose(full({3, 2}, 0.5)), x * expand(full({1, 1}, 2.0), {2, 3})};
      },
      ramp({2, 3}));
  fold_constants(graph, PassContext(graph));
  EXPECT_THAT(ops_of(graph), ElementsAre("permute", "mul", "expand", "mul"));
}

TEST(ConstantFolding, ComputesWhatReadsViewsOfConstants) {
  const auto ops_after = [](const auto& function) {
    graph::Graph graph = captured([&](const Tensor& x) { return std::vector<Tensor>{function(x)}; }, ramp({3, 3}));
    fold_constants(graph, PassContext(graph));
    eliminate_dead_code(graph, PassContext(graph));
    graph::verify(graph);
    auto compiled = jit(function);
    expect_same_bits(compiled(ramp({3, 3})), function(ramp({3, 3})), "folded");
    return ops_of(graph);
  };
  const auto rows = [] { return reshape(cast(arange(3), DType::float32), {3, 1}); };
  EXPECT_THAT(ops_after([&](const Tensor& x) { return x * (rows() - transpose(rows())); }), ElementsAre("mul"));
  EXPECT_THAT(ops_after([&](const Tensor& x) {
                return x * (expand(full({1, 1}, 2.0), {3, 3}) * 0.5);
              }),
              ElementsAre("expand", "mul", "mul"))
      << "one element, repeated, takes no memory";
  EXPECT_THAT(ops_after([&](const Tensor& x) {
                const Tensor square = reshape(cast(arange(9), DType::float32), {3, 3});
                return reshape(x, {9}) * reshape(transpose(square), {9});
              }),
              ElementsAre("reshape", "mul"))
      << "a reshape that copies is no view";
}

TEST(ConstantFolding, LeavesLargeResultsAlone) {
  graph::Graph graph = captured(
      [](const Tensor& x) {
        return std::vector<Tensor>{x * sum(full({1024, 257}, 0.5)) + full({256, 1024}, 1.0)};
      },
      Tensor::scalar(1.0F));
  fold_constants(graph, PassContext(graph));
  EXPECT_THAT(ops_of(graph), ElementsAre("full", "sum", "mul", "add")) << "1 MiB is folded, more is not";
}

TEST(ConstantFolding, LeavesAFailureToTheRun) {
  auto function = jit([](const Tensor& x) { return x + one_hot(full({1}, 9, DType::int64), 3); });
  EXPECT_THAT(message_of<Error>([&] { function(zeros({1, 3})); }), HasSubstr("one_hot: index 9"));
  EXPECT_EQ(function.compiled()->ledger().size(), 1U) << "it compiled";
}

TEST(Pipeline, RecordsWhatEachPassDid) {
  auto function = jit([](const Tensor& x) { return neg(neg(exp(x))) + exp(x) * (full({}, 2.0) - 1); });
  function(ramp({3}));
  const auto& records = function.compiled()->ledger()[0].passes;
  ASSERT_EQ(records.size(), pipeline().size());
  const std::set<std::string> with_work = {"constant-folding", "simplify", "cse", "dce"};
  std::size_t nodes = function.compiled()->ledger()[0].captured_nodes;
  for (const PassRecord& record : records) {
    EXPECT_EQ(record.nodes_before, nodes) << record.name;
    EXPECT_EQ(record.changed, with_work.contains(record.name)) << record.name;
    EXPECT_GE(record.seconds, 0);
    nodes = record.nodes_after;
  }
  EXPECT_EQ(nodes, 2U) << "exp and add";
}

TEST(Pipeline, SaysWhereNothingChanged) {
  std::vector<bool> changes;
  PipelineOptions options;
  options.observe = [&](const std::string&, const graph::Graph&, bool changed) { changes.push_back(changed); };
  auto function = jit([](const Tensor& x) { return exp(x); }, {.pipeline = options});
  function(ramp({3}));
  std::vector<bool> expected(1 + pipeline().size(), false);
  expected[0] = true;  // the captured graph
  EXPECT_EQ(changes, expected);
}

TEST(Pipeline, ADisabledPassDoesNotRun) {
  for (const Pass& pass : pipeline()) {
    PipelineOptions options;
    options.disabled = {pass.name};
    std::vector<std::string> stages;
    options.observe = [&](const std::string& stage, const graph::Graph&, bool) { stages.push_back(stage); };
    auto function =
        jit([](const Tensor& x) { return neg(neg(exp(x))) + exp(x) * (full({}, 2.0) - 1); }, {.pipeline = options});
    function(ramp({3}));
    EXPECT_EQ(stages.size(), pipeline().size());
    EXPECT_THAT(stages, ::testing::Not(::testing::Contains(std::string(pass.name))));
  }
}

TEST(Pipeline, NothingRunsWhereEverythingIsDisabled) {
  auto function = jit([](const Tensor& x) { return neg(neg(x)) * 1; }, {.pipeline = PipelineOptions::none()});
  function(ramp({3}));
  EXPECT_EQ(function.compiled()->graph()->nodes.size(), 4U);
  EXPECT_TRUE(function.compiled()->ledger()[0].passes.empty());
  EXPECT_EQ(function.compiled()->executable()->stats().planned_peak_bytes, 0U);
}

TEST(Pipeline, AnUnknownPassIsAnErrorThatNamesIt) {
  PipelineOptions options;
  options.disabled = {"simplfy"};
  auto function = jit([](const Tensor& x) { return x + 1; }, {.pipeline = options});
  EXPECT_THAT(message_of<Error>([&] { function(ramp({3})); }), AllOf(HasSubstr("'simplfy'"), HasSubstr("--passes")));
  for (const char* known : {kInPlace, kMemoryPlan, kPacking, kSideBySide, "simplify", "cse", "dce", "constant-folding",
                            "epilogue", "multi-tensor", "fuse"}) {
    options.disabled = {known};
    graph::Graph graph;
    EXPECT_NO_THROW(run_pipeline(graph, options)) << known;
  }
}

TEST(Pipeline, ASecondRunKeepsBitsAndGrowsNothing) {
  Variable state(wave({3, 3}, 1), "state");
  graph::Graph graph = captured(
      [&](const Tensor& x) {
        const Tensor y = neg(neg(x)) * (full({}, 3.0) - 2) + exp(x) / 4 + exp(x);
        state.assign(state.value() * 1 + matmul(copy(transpose(y)), y));
        return std::vector<Tensor>{softmax(y), transpose(transpose(y)), state.value()};
      },
      wave({3, 3}, 2));
  run_pipeline(graph, {});
  const std::string once = graph::print(graph);
  for (const PassRecord& record : run_pipeline(graph, {})) {
    EXPECT_FALSE(record.changed) << record.name;
  }
  EXPECT_EQ(graph::print(graph), once);
}

TEST(Pipeline, AnUpdateThatChangesNothingIsDropped) {
  Variable state(ramp({3}), "state");
  auto function = jit([&](const Tensor& x) {
    state.assign(neg(neg(state.value())));
    return x + 1;
  });
  function(ramp({3}));
  EXPECT_TRUE(function.compiled()->graph()->updates.empty());
  EXPECT_THAT(state.value().to_vector<float>(), ElementsAre(1, 2, 3));
}

TEST(Pipeline, StatesAndCapturedTensorsAreNoConstants) {
  Variable state(Tensor::scalar(1.0F), "state");
  Tensor captured_one = Tensor::scalar(1.0F);
  auto function = jit([&](const Tensor& x) { return x * state.value() * captured_one; });
  EXPECT_EQ(function(Tensor::scalar(3.0F)).item(), 3);
  state.assign(Tensor::scalar(2.0F));
  captured_one.mutable_data<float>()[0] = 5;
  EXPECT_EQ(function(Tensor::scalar(3.0F)).item(), 30);
}

}  // namespace
}  // namespace diptych::passes
