// Products and convolutions with what is elementwise behind them: one node, whose bits are eager's.

#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/dispatch/apply.h"
#include "framework/graph/fused_op.h"
#include "framework/ops/creation_ops.h"
#include "tests/graph/variants.h"
#include "tests/passes/fusing.h"
#include "tests/passes/programs.h"
#include "tests/support/with_threads.h"

namespace diptych::passes {
namespace {

using diptych::testing::expect_same_bits;
using diptych::testing::fusing_all;
using diptych::testing::wave;
using diptych::testing::WithThreads;
using testing::Body;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using testing::names_of;

graph::Graph program(const std::string& lines, const std::string& results, const std::string& type = "f32[4,4]") {
  return testing::program_of(type, lines, results);
}

struct Fused {
  graph::Graph graph;
  std::vector<std::string> refusals;
  std::vector<FusedKernel> kernels;
};

Fused fused(graph::Graph graph, std::size_t least_bytes = 0, const std::set<graph::ValueId>& vetoed = {}) {
  Fused result;
  std::vector<FusionRefusal> refusals;
  PassContext context(graph);
  context.least_fused_bytes = least_bytes;
  context.least_epilogue_bytes = least_bytes;
  context.refusals = &refusals;
  context.fused = &result.kernels;
  context.vetoed = vetoed;
  fuse_epilogues(graph, context);
  graph::verify(graph);
  for (const FusionRefusal& refusal : refusals) {
    const std::string text = to_string(refusal);
    result.refusals.push_back(text.substr(0, text.find(" (")));
  }
  result.graph = std::move(graph);
  return result;
}

const std::string kResidual = "%2: f32[4,4] = matmul(%0, %1)\n%3: f32[4,4] = tanh(%2)\n%4: f32[4,4] = add(%3, %1)\n";

TEST(FuseEpilogues, AProductAndWhatIsBehindItAreOneNodeWhoseTextReadsBack) {
  const Fused one = fused(program(kResidual, "%4"));
  ASSERT_THAT(names_of(one.graph), ElementsAre("fused"));
  EXPECT_THAT(names_of(*one.graph.nodes[0].regions[0]), ElementsAre("matmul", "tanh", "add"));
  EXPECT_THAT(one.graph.nodes[0].outputs, ElementsAre(4));
  EXPECT_EQ(graph::print(graph::parse(graph::print(one.graph))), graph::print(one.graph));
  EXPECT_THAT(one.refusals, IsEmpty());
  ASSERT_EQ(one.kernels.size(), 1U);
  EXPECT_THAT(one.kernels[0].members, ElementsAre(2, 3, 4));
}

TEST(FuseEpilogues, TheProductComesFirstAndReadsNothingOfTheRest) {
  // What stands before it in the text may be behind it in the kernel.
  const std::string before = "%2: f32[4,4] = exp(%0)\n%3: f32[4,4] = matmul(%0, %1)\n%4: f32[4,4] = mul(%3, %2)\n";
  const Fused one = fused(program(before, "%4"));
  ASSERT_THAT(names_of(one.graph), ElementsAre("fused"));
  EXPECT_THAT(names_of(*one.graph.nodes[0].regions[0]), ElementsAre("matmul", "exp", "mul"));
  const std::string reads = "%2: f32[4,4] = exp(%0)\n%3: f32[4,4] = matmul(%2, %1)\n%4: f32[4,4] = mul(%3, %2)\n";
  EXPECT_THAT(names_of(fused(program(reads, "%4")).graph), ElementsAre("exp", "fused"));
}

TEST(FuseEpilogues, ANodeHasOneProduct) {
  const Fused two = fused(
      program("%2: f32[4,4] = matmul(%0, %1)\n%3: f32[4,4] = matmul(%1, %0)\n%4: f32[4,4] = add(%2, %3)\n", "%4"));
  EXPECT_THAT(names_of(two.graph), ElementsAre("matmul", "fused"));
  EXPECT_THAT(two.refusals, ElementsAre("%3 matmul -> %4 add: kind"));
}

TEST(FuseEpilogues, SayWhyNot) {
  EXPECT_THAT(fused(program("%2: f32[4,4] = matmul(%0, %1)\n%3: f32[4,1,4] = reshape(%2) {shape=[4,1,4]}\n"
                            "%4: f32[4,4,4] = mul(%3, %0)\n",
                            "%4"))
                  .refusals,
              ElementsAre("%2 matmul -> %4 mul: layout"));
  EXPECT_THAT(fused(program(kResidual, "%4"), 1 << 20).refusals,
              ElementsAre("%2 matmul -> %3 tanh: unprofitable by 2 ns"));
  // A sum over everything stands between.
  EXPECT_THAT(fused(program("%2: f32[4,4] = matmul(%0, %1)\n%3: f32[] = sum(%2) {axes=[0,1]}\n"
                            "%4: f32[4,4] = mul(%2, %3)\n",
                            "%4"))
                  .refusals,
              ElementsAre("%2 matmul -> %4 mul: cycle"));
  // Two more tensors besides a large product; and one where the parts aren't whole rows.
  const std::string wide = "f32[2048,2048]";
  const std::string product = "%2: " + wide + " = matmul(%0, %1)\n%3: " + wide + " = add(%2, %0)\n";
  EXPECT_THAT(
      fused(program("%2: " + wide + " = matmul(%0, %1)\n%3: " + wide + " = tanh(%2)\n", "%3", wide), 1 << 20).refusals,
      IsEmpty());
  const std::string more = "graph \"g\"(%0: " + wide + " argument \"x\", %1: " + wide + " argument \"y\", %9: " + wide +
                           " argument \"z\") {\n%2: " + wide + " = matmul(%0, %1)\n%3: " + wide +
                           " = add(%2, %9)\n return %3\n}";
  EXPECT_THAT(fused(graph::parse(more), 1 << 20).refusals,
              ElementsAre(HasSubstr("%2 matmul -> %3 add: unprofitable by")));
}

TEST(FuseEpilogues, BrainFloatsAreRoundedFirst) {
  const Fused stays = fused(program("%2: bf16[4,4] = matmul(%0, %1)\n%3: bf16[4,4] = tanh(%2)\n", "%3", "bf16[4,4]"));
  EXPECT_THAT(names_of(stays.graph), ElementsAre("matmul", "tanh"));
}

TEST(FuseEpilogues, AVetoedKernelIsNotMade) {
  const Fused kept = fused(program(kResidual, "%4"), 0, {2});
  EXPECT_THAT(names_of(kept.graph), ElementsAre("matmul", "tanh", "add"));
  EXPECT_THAT(kept.kernels, IsEmpty());
  EXPECT_THAT(kept.refusals, ElementsAre("%2 matmul -> %3 tanh: unprofitable"));
}

TEST(FuseEpilogues, DamagedRegionsAreRefused) {
  const std::string good = graph::print(fused(program(kResidual, "%4")).graph);
  const auto with = testing::errors_of(good);
  EXPECT_THAT(with("tanh(%2)", "matmul(%2, %1)"), HasSubstr("matmul"));
  EXPECT_THAT(with("tanh(%2)", "softmax(%2)"), HasSubstr("can't be in"));
  EXPECT_THAT(with("return %4", "return %1"), HasSubstr("no result of its region"));
  EXPECT_THAT(
      testing::errors_of("graph \"g\"(%0: f32[4,4] argument \"x\") {\n  %1: f32[4,4] = fused(%0) [\n"
                         "    graph \"r\"(%0: f32[4,4] argument \"x\") {\n"
                         "      %1: f32[4,4] = matmul(%0, %0)\n      return %1\n    } ]\n  return %1\n}")("", ""),
      HasSubstr("nothing behind its contraction"));
}

// Bits.

std::size_t fused_products(const graph::Graph& graph) {
  return static_cast<std::size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) {
    return node.op == &graph::fused_op() && graph::contraction_of(*node.regions[0]) != nullptr;
  }));
}

void expect_eager_bits(const Body& function, const std::vector<Tensor>& inputs, const std::string& what) {
  const std::vector<Tensor> expected = function(inputs);
  for (const int threads : {1, 3}) {
    for (const bool plans : {true, false}) {
      const WithThreads with(threads, true);
      PipelineOptions options = fusing_all();
      if (!plans) {
        options.disabled = {kMemoryPlan, kInPlace};
      }
      auto compiled = jit(function, {.pipeline = options});
      for (int call = 0; call < 2; ++call) {
        expect_same_bits(compiled(inputs), expected, what);
      }
      EXPECT_GE(fused_products(*compiled.compiled()->graph()), 1U) << what;
    }
  }
}

// As many inputs as a region may have, all of the product's among them, and the product itself.
TEST(FuseEpilogues, AsManyInputsAsARegionMayHave) {
  std::vector<Tensor> inputs{wave({4, 4}, 1)};
  for (int i = 0; i < 23; ++i) {
    inputs.push_back(wave({4}, i + 2));
  }
  expect_eager_bits(
      [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        Tensor y = matmul(in[0], in[0]) + in[0];
        for (std::size_t i = 1; i < in.size(); ++i) {
          y = y + in[i];
        }
        return {y};
      },
      inputs, "24 inputs");
}

TEST(FuseEpilogues, ProductsOfEverySizeGiveEagersBits) {
  for (const auto& [m, n, k] :
       {std::tuple{1, 7, 5}, {1, 300, 400}, {70, 1, 300}, {33, 49, 600}, {150, 600, 40}, {300, 256, 257}}) {
    const std::vector<Tensor> inputs{wave({m, k}, 1), wave({k, n}, 2), wave({n}, 3), wave({m, n}, 4), wave({m, 1}, 5)};
    expect_eager_bits(
        [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
          const Tensor product = linear(in[0], in[1], in[2]);
          return {relu(gelu(product) * 0.5 + in[3]) / in[4]};
        },
        inputs, "one result");
    expect_eager_bits(
        [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
          const Tensor product = matmul(in[0], in[1]);
          const Tensor positive = greater(product, in[3]);
          return {positive, where(positive, product, in[3]), product, sum(tanh(product), {0})};
        },
        inputs, "several results, of other types");
  }
}

// As training in mixed precision has them: dropped, and converted for what reads it next.
TEST(FuseEpilogues, DropoutMasksAndConversionsOfTypes) {
  const Body function = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const Tensor product = matmul(in[0], in[1]);
    const ops::MaskedScaleAttributes scale{1.25};
    const Tensor dropped = apply(op::masked_scale, std::array{&in[2], &product}, &scale, Location::current());
    return {cast(dropped, DType::bfloat16), cast(dropped * 100.0, DType::int32)};
  };
  const std::vector<Tensor> inputs{wave({70, 40}, 1), wave({40, 90}, 2), greater(wave({70, 90}, 3), zeros({}))};
  expect_eager_bits(function, inputs, "masked_scale and cast");
  auto compiled = jit(function, {.pipeline = fusing_all()});
  compiled(inputs);
  for (const graph::Node& node : compiled.compiled()->graph()->nodes) {
    if (node.op == &graph::fused_op()) {
      EXPECT_THAT(names_of(*node.regions[0]), IsSupersetOf({"matmul", "masked_scale", "cast"}));
    }
  }
}

TEST(FuseEpilogues, ProductsOfViewsGiveEagersBits) {
  const Tensor wide = wave({90, 200}, 1);
  for (const Tensor& left : {slice(wide, 1, 30, 70), slice(wide, 1, 0, 80, 2), transpose(wave({40, 90}, 2)),
                             slice(wave({200, 40}, 3), 0, 10, 190, 2)}) {
    for (const Tensor& right : {slice(wide, 1, 100, 150), transpose(wave({50, 90}, 4)), slice(wide, 1, 0, 100, 2)}) {
      expect_eager_bits(
          [](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {tanh(matmul(in[0], in[1]) + 1.0)}; },
          {left, slice(right, 0, 0, 40)}, "views on both sides");
    }
  }
}

TEST(FuseEpilogues, OperandsOfEveryLayout) {
  const Tensor residual = wave({90, 80}, 3);
  for (const Tensor& other : {transpose(residual), slice(wave({80, 200}, 4), 1, 5, 185, 2), wave({90}, 5),
                              wave({80, 1}, 6), wave({}, 7), expand(wave({1, 90}, 8), {80, 90})}) {
    expect_eager_bits(
        [](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {tanh(matmul(in[0], in[1])) + in[2]}; },
        {wave({80, 30}, 1), wave({30, 90}, 2), other}, "a product");
  }
  const Tensor plane = wave({2, 12, 9, 10}, 1);
  for (const Tensor& other :
       {wave({2, 12, 9, 10}, 2), permute(wave({2, 9, 10, 12}, 3), {0, 3, 1, 2}), wave({12, 1, 1}, 4), wave({9, 1}, 5),
        wave({10}, 6), slice(wave({2, 12, 9, 25}, 7), 3, 2, 22, 2), wave({2, 1, 9, 10}, 8)}) {
    expect_eager_bits(
        [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
          return {relu(conv2d(in[0], in[1], {}, {.padding = {1, 1}}) * in[2])};
        },
        {plane, wave({12, 12, 3, 3}, 9), other}, "a convolution");
  }
}

TEST(FuseEpilogues, ConvolutionNormAndActivation) {
  for (const auto& [batch, channels, size, groups] :
       {std::tuple{1, 3, 30, 1}, {5, 16, 7, 1}, {2, 8, 16, 2}, {3, 6, 9, 6}}) {
    const std::vector<Tensor> inputs{wave({batch, channels, size, size}, 1), wave({12, channels / groups, 3, 3}, 2),
                                     wave({12}, 3), wave({12, 1, 1}, 4), wave({batch, 12, size, size}, 5)};
    expect_eager_bits(
        [groups = groups](const std::vector<Tensor>& in) -> std::vector<Tensor> {
          const Tensor y = conv2d(in[0], in[1], in[2], {.padding = {1, 1}, .groups = groups});
          return {relu((y - in[3]) * in[3] + in[3] + in[4])};
        },
        inputs, "groups " + std::to_string(groups));
  }
}

/// A step whose weights are updated where their gradient is computed.
TEST(FuseEpilogues, StatesAreUpdatedInPlaceByTheKernelOfTheirGradient) {
  const Tensor x = wave({60, 40}, 1);
  const auto step_of = [](const Variable& weight, const Variable& momentum) {
    return [=](const std::vector<Tensor>& in) mutable -> std::vector<Tensor> {
      const Tensor y = tanh(matmul(in[0], weight.value()));
      const Tensor gradient = matmul(transpose(in[0]), y);
      Variable w = weight;
      Variable m = momentum;
      m.assign(m.value() * 0.9 + gradient);
      w.assign(w.value() - m.value() * 0.01);
      return {y};
    };
  };
  const auto make = [](std::vector<Variable>& states) {
    states = {Variable(wave({40, 50}, 2), "w"), Variable(wave({40, 50}, 3), "m")};
  };
  std::vector<Variable> eager;
  std::vector<Variable> graph;
  make(eager);
  make(graph);
  auto eager_step = step_of(eager[0], eager[1]);
  auto compiled = jit(Body(step_of(graph[0], graph[1])), {.pipeline = fusing_all()});
  for (int i = 0; i < 4; ++i) {
    expect_same_bits(compiled(std::vector<Tensor>{x}), eager_step({x}), "outputs");
    expect_same_bits(graph[0].value(), eager[0].value(), "w");
    expect_same_bits(graph[1].value(), eager[1].value(), "m");
  }
  EXPECT_EQ(fused_products(*compiled.compiled()->graph()), 2U);
}

}  // namespace
}  // namespace diptych::passes
