// Graphs from files as workloads: what they were captured from, bit for bit, before and after the passes.

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/capture/graph_function.h"
#include "framework/core/temporary_folder.h"
#include "tests/graph/variants.h"
#include "workloads/graph_text/workload.h"

namespace diptych::workloads {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::f32;
using diptych::testing::fusing_all;
using diptych::testing::message_of;
using diptych::testing::ramp;
using ::testing::AllOf;
using ::testing::HasSubstr;

class GraphText : public ::testing::Test {
 protected:
  std::string written(const std::string& name, const std::string& text) const {
    const std::string path = (folder_.path() / name).string();
    std::ofstream(path) << text;
    return path;
  }

  TemporaryFolder folder_;
};

/// A step with a state, a tensor that it closes over, control flow, and rows and elements that fuse.
struct Step {
  Variable state{ramp({4, 3}, 0.5F, 0.25F), "w"};
  Tensor captured = ramp({3}, 1, 1);

  Tensor operator()(const Tensor& x) {
    const Tensor y = softmax(x * state.value() + captured);
    state.assign(state.value() - y);
    return cond(
        diptych::testing::above(sum(y), 0), [](const Tensor& z) { return tanh(exp(z)); },
        [](const Tensor& z) { return neg(z); }, y);
  }
};

TEST_F(GraphText, EveryStageComputesWhatWasCaptured) {
  std::vector<std::pair<std::string, std::string>> stages;
  passes::PipelineOptions pipeline = fusing_all();
  pipeline.observe = [&](const std::string& stage, const graph::Graph& graph, bool) {
    stages.emplace_back(stage, graph::print(graph));
  };
  const Tensor x = ramp({4, 3}, -1, 0.3F);
  const Step captured;
  {
    Step step;
    jit(step, {.pipeline = pipeline})(x);
  }
  ASSERT_THAT(stages.back().second, HasSubstr("fused("));
  for (const auto& [stage, text] : stages) {
    const graph::GraphFunction function(graph::parse(text), {Variable(copy(captured.state.value()), "w")},
                                        {captured.captured});
    Step eager;
    for (int call = 0; call < 2; ++call) {
      const Tensor arguments[] = {x};
      expect_same_bits(function(arguments)[0], eager(x), stage);
      expect_same_bits(function.states()[0].value(), eager.state.value(), stage);
    }
  }
}

TEST_F(GraphText, IsAWorkloadWithInputsOfTheSeed) {
  const std::string name = written("g.txt",
                                   "# as somebody types it\ngraph \"g\"(%0: f32[64] argument \"x\", %1: i64[64] "
                                   "argument \"i\", %2: f64[64] state \"s\") {\n"
                                   "  %3: f64[64] = cast(%0) {dtype=f64}\n  %4: f64[64] = add(%3, %2)\n"
                                   "  update %2 <- %4\n  return %3, %1\n}\n");
  EXPECT_TRUE(is_graph_name(name));
  EXPECT_TRUE(is_file_name(name + ":special"));
  EXPECT_FALSE(is_graph_name("mlp/digits"));
  EXPECT_FALSE(is_graph_name(name + ":other"));
  const Workload* const workload = find_workload(name);
  ASSERT_NE(workload, nullptr);
  EXPECT_EQ(workload->name, name);
  EXPECT_THAT(workload->title, AllOf(HasSubstr("g.txt"), HasSubstr("2 nodes")));
  const auto program = workload->make(1);
  const auto same = workload->make(1);
  const auto other = workload->make(2);
  EXPECT_FALSE(program->is_forward()) << "it updates a state";
  ASSERT_EQ(program->inputs(0).size(), 2U);
  ASSERT_EQ(program->state().size(), 1U);
  EXPECT_TRUE(bitwise_equal(program->inputs(0)[0], same->inputs(1)[0]));
  EXPECT_FALSE(bitwise_equal(program->inputs(0)[0], other->inputs(0)[0]));
  for (std::int64_t i = 0; i < 64; ++i) {
    const auto index = program->inputs(0)[1].data<std::int64_t>()[i];
    EXPECT_TRUE(index == 0 || index == 1);
  }
  const Tensor before = copy(program->state()[0].value());
  const std::vector<Tensor> results = program->body(program->inputs(0));
  ASSERT_EQ(results.size(), 2U);
  expect_same_bits(program->state()[0].value(), results[0] + before, "the state");

  const auto special = find_workload(name + ":special")->make(1);
  const auto* const first = special->inputs(0)[0].data<float>();
  const auto kinds = std::count_if(first, first + 64, [](float x) { return !std::isnormal(x); });
  EXPECT_GT(kinds, 0);
  EXPECT_LT(kinds, 32);
}

TEST_F(GraphText, BadFilesAreRefused) {
  const auto refused = [](const std::string& name) { return message_of<FileError>([&] { graph_workload(name); }); };
  EXPECT_THAT(refused("missing.txt"), AllOf(HasSubstr("\"missing.txt\""), HasSubstr("no such file")));
  EXPECT_THAT(refused("/dev/fd/../null.txt"), HasSubstr("no such file"));
  EXPECT_THAT(refused(written("bad.txt", "graph \"g\"() {\n  %0: f32[2] = exp(%7)\n  return %0\n}")),
              AllOf(HasSubstr("bad.txt"), HasSubstr("line 2")));
  EXPECT_THAT(refused(written("empty.txt", "")), HasSubstr("expected 'graph'"));
  std::filesystem::create_directory(folder_.path() / "folder.txt");
  EXPECT_THAT(refused((folder_.path() / "folder.txt").string()), HasSubstr("it is no file"));
  const std::string endless = written("endless.txt", "");
  std::filesystem::resize_file(endless, std::uintmax_t{1} << 40U);  // a hole: takes no space
  EXPECT_THAT(refused(endless), HasSubstr("more than 64 MiB"));
}

TEST_F(GraphText, WhatDoesNotFitAGraphIsNamed) {
  const graph::Graph graph =
      graph::parse("graph \"g\"(%0: f32[2] argument \"x\", %1: f32[2] state \"s\") {\n  return %0\n}");
  EXPECT_THAT(message_of<Error>([&] { graph::GraphFunction(graph, {}, {}); }),
              HasSubstr("1 inputs of the kind state; 0 are given"));
  const graph::GraphFunction function(graph, {Variable(f32({1, 2}, {2}), "s")}, {});
  const std::vector<Tensor> longer{f32({1, 2, 3}, {3})};
  EXPECT_THAT(message_of<Error>([&] { function(longer); }), HasSubstr("%0 of the graph is f32[2], not f32[3]"));
  EXPECT_THAT(message_of<Error>([&] { function({}); }), HasSubstr("1 inputs of the kind argument; 0 are given"));
}

}  // namespace
}  // namespace diptych::workloads
