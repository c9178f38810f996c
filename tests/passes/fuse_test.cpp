#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/capture/graph_function.h"
#include "framework/core/isa.h"
#include "framework/dispatch/op.h"
#include "framework/graph/fused_op.h"
#include "framework/kernels/pair_loops.h"
#include "framework/ops/debug.h"
#include "framework/ops/elementwise_ops.h"
#include "tests/graph/variants.h"
#include "tests/passes/fusing.h"
#include "tests/passes/programs.h"
#include "tests/support/called.h"
#include "tests/support/with_isa.h"
#include "tests/support/with_threads.h"

namespace diptych::passes {
namespace {

using diptych::testing::called;
using diptych::testing::expect_same_bits;
using diptych::testing::fusing_all;
using diptych::testing::wave;
using diptych::testing::WithIsa;
using diptych::testing::WithThreads;
using testing::after_fuse;
using testing::Body;
using ::testing::ElementsAre;
using testing::expect_fused_bits;
using ::testing::HasSubstr;
using testing::names_of;

graph::Graph program(const std::string& lines, const std::string& results, const std::string& type = "f32[4]") {
  return testing::program_of(type, lines, results);
}

// It isn't read, though it would be by tiles of the result's shape.
TEST(Fuse, AnInputThatNothingReadsMayHaveAnyShape) {
  const graph::Graph graph = graph::parse(
      "graph \"g\"(%0: f32[1048576,8] argument \"a\", %1: f32[2,1] argument \"b\") {\n"
      "  %2: f32[1048576,8] = fused(%0, %1) [\n"
      "    graph \"r\"(%0: f32[1048576,8] argument \"a\", %1: f32[2,1] argument \"b\") {\n"
      "      %2: f32[1048576,8] = exp(%0)\n      return %2\n    } ]\n  return %2\n}");
  graph::GraphFunction function(graph, {}, {});
  const std::vector<Tensor> inputs{wave({1048576, 8}, 1), wave({2, 1}, 2)};
  auto compiled = jit([&](const std::vector<Tensor>& in) { return function(in); });
  expect_same_bits(compiled(inputs), std::vector{exp(inputs[0])}, "an input too many");
}

TEST(Fuse, AChainIsOneNodeWhoseTextReadsBack) {
  const graph::Graph graph =
      after_fuse(program("%2: f32[4] = exp(%0)\n%3: f32[4] = mul(%2, %1)\n%4: f32[4] = neg(%3)\n", "%4"));
  ASSERT_THAT(names_of(graph), ElementsAre("fused"));
  EXPECT_THAT(names_of(*graph.nodes[0].regions[0]), ElementsAre("exp", "mul", "neg"));
  EXPECT_THAT(graph.nodes[0].inputs, ElementsAre(0, 1));
  EXPECT_THAT(graph.nodes[0].outputs, ElementsAre(4));
  EXPECT_EQ(graph::print(graph::parse(graph::print(graph))), graph::print(graph));
}

TEST(Fuse, AResultThatOthersReadIsAnOutput) {
  const graph::Graph graph = after_fuse(program(
      "%2: f32[4,4] = exp(%0)\n%3: f32[4,4] = neg(%2)\n%4: f32[4] = sum(%2) {axes=[0]}\n", "%3, %4", "f32[4,4]"));
  ASSERT_THAT(names_of(graph), ElementsAre("fused", "sum"));
  EXPECT_THAT(graph.nodes[0].outputs, ElementsAre(2, 3));
}

TEST(Fuse, WhatAnotherOpStandsBetweenStaysApart) {
  // sum reads exp's result, and mul reads sum's: as one node they would wait for each other.
  const graph::Graph graph = after_fuse(program(
      "%2: f32[4,4] = exp(%0)\n%3: f32[4] = sum(%2) {axes=[0]}\n%4: f32[4,4] = mul(%2, %3)\n", "%4", "f32[4,4]"));
  EXPECT_THAT(names_of(graph), ElementsAre("exp", "sum", "mul"));
}

TEST(Fuse, TwoSetsDontWaitForEachOther) {
  // exp and mul could be one, and neg and add: not both, since each would read from the other by way of a sum.
  const graph::Graph graph =
      after_fuse(program("%2: f32[4,4] = exp(%0)\n%3: f32[4,4] = neg(%1)\n%4: f32[4] = sum(%2) {axes=[0]}\n"
                         "%5: f32[4] = sum(%3) {axes=[0]}\n%6: f32[4,4] = mul(%2, %5)\n%7: f32[4,4] = add(%3, %4)\n",
                         "%6, %7", "f32[4,4]"));
  EXPECT_THAT(names_of(graph), ElementsAre("neg", "sum", "fused", "sum", "add"));
}

TEST(Fuse, OtherShapesTransposesEffectsAndSmallTensorsStay) {
  EXPECT_THAT(
      names_of(after_fuse(program("%2: f32[4] = sum(%0) {axes=[0]}\n%3: f32[4] = exp(%2)\n%4: f32[4,4] = mul(%3, %0)\n",
                                  "%4", "f32[4,4]"))),
      ElementsAre("sum", "exp", "mul"));
  EXPECT_THAT(names_of(after_fuse(program("%2: f32[4,4] = exp(%0)\n%3: f32[4,4] = permute(%1) {axes=[1,0]}\n"
                                          "%4: f32[4,4] = mul(%2, %3)\n",
                                          "%4", "f32[4,4]"))),
              ElementsAre("exp", "permute", "mul"));
  EXPECT_THAT(names_of(after_fuse(program("%2: f32[4] = exp(%0)\n%3: f32[4] = neg(%2)\n", "%3"), 17)),
              ElementsAre("exp", "neg"));
  EXPECT_THAT(names_of(after_fuse(program("%2: f32[4] = exp(%0)\n%3: f32[4] = neg(%2)\n", "%3"), 16)),
              ElementsAre("fused"));
}

TEST(Fuse, LongProgramsAreCut) {
  std::string lines;
  for (int i = 2; i < 202; ++i) {
    lines += "%" + std::to_string(i) + ": f32[4] = neg(%" + (i == 2 ? "0" : std::to_string(i - 1)) + ")\n";
  }
  const graph::Graph graph = after_fuse(program(lines, "%201"));
  EXPECT_THAT(names_of(graph), ElementsAre("fused", "fused", "fused", "fused"));
}

TEST(Fuse, DamagedRegionsAreRefused) {
  const std::string good = graph::print(after_fuse(program("%2: f32[4] = exp(%0)\n%3: f32[4] = mul(%2, %1)\n", "%3")));
  const auto with = testing::errors_of(good);
  EXPECT_THAT(with("exp(%0)", "sort(%0)"), HasSubstr("sort"));
  EXPECT_THAT(with("fused(%0, %1)", "fused(%0)"), HasSubstr("takes another number of inputs"));
  EXPECT_THAT(with("return %3", "return %1"), HasSubstr("no result of its region"));
  EXPECT_THAT(with("return %3", "return"), HasSubstr("gives nothing"));
}

// Reductions and ops of rows.

const std::string kSoftmax =
    "%2: f32[4,5] = mul(%0, %1)\n%3: f32[4,1] = max(%2) {axes=[1], keepdims=true}\n%4: f32[4,5] = sub(%2, %3)\n"
    "%5: f32[4,5] = exp(%4)\n%6: f32[4] = sum(%5) {axes=[1]}\n%7: f32[4,1] = reshape(%6) {shape=[4,1]}\n"
    "%8: f32[4,5] = div(%5, %7)\n";

TEST(FuseRows, ASoftmaxWrittenByHandIsOneNode) {
  const graph::Graph graph = after_fuse(program(kSoftmax, "%8", "f32[4,5]"));
  ASSERT_THAT(names_of(graph), ElementsAre("fused"));
  EXPECT_THAT(names_of(*graph.nodes[0].regions[0]), ElementsAre("mul", "max", "sub", "exp", "sum", "reshape", "div"));
  EXPECT_EQ(graph::print(graph::parse(graph::print(graph))), graph::print(graph));
}

TEST(FuseRows, AViewThatOthersReadStaysOutsideToo) {
  const graph::Graph graph = after_fuse(program(kSoftmax, "%8, %7", "f32[4,5]"));
  ASSERT_THAT(names_of(graph), ElementsAre("fused", "reshape"));
  EXPECT_THAT(graph.nodes[0].outputs, ElementsAre(6, 8));
  // And one that nobody else reads isn't inside.
  const graph::Graph alone = after_fuse(
      program("%2: f32[4,5] = exp(%0)\n%3: f32[4] = sum(%2) {axes=[1]}\n%4: f32[4,1] = reshape(%3) {shape=[4,1]}\n",
              "%4", "f32[4,5]"));
  ASSERT_THAT(names_of(alone), ElementsAre("fused", "reshape"));
  EXPECT_THAT(names_of(*alone.nodes[0].regions[0]), ElementsAre("exp", "sum"));
}

TEST(FuseRows, OtherRowsStayApart) {
  // A sum over columns; a vector that is one value a column for the next; rows of another length.
  EXPECT_THAT(names_of(after_fuse(program("%2: f32[4,4] = softmax(%0)\n%3: f32[4] = sum(%2) {axes=[1]}\n"
                                          "%4: f32[4,4] = mul(%0, %3)\n",
                                          "%4", "f32[4,4]"))),
              ElementsAre("fused", "mul"));
  EXPECT_THAT(names_of(after_fuse(program("%2: f32[4,4] = softmax(%0)\n%3: f32[2,8] = reshape(%2) {shape=[2,8]}\n"
                                          "%4: f32[2,8] = softmax(%3)\n",
                                          "%4", "f32[4,4]"))),
              ElementsAre("softmax", "reshape", "softmax"));
  // A weight that is computed is needed as a whole.
  EXPECT_THAT(names_of(after_fuse(program("%2: f32[4,4] = softmax(%0)\n%3: f32[4] = sum(%2) {axes=[1]}\n"
                                          "%4: f32[4,4] = layer_norm(%2, %3, %3)\n",
                                          "%4", "f32[4,4]"))),
              ElementsAre("fused", "layer_norm"));
}

TEST(FuseRows, LongRowsStay) {
  const std::string type = "f32[2,30000]";
  EXPECT_THAT(names_of(after_fuse(program("%2: " + type + " = exp(%0)\n%3: " + type + " = softmax(%2)\n", "%3", type))),
              ElementsAre("exp", "softmax"));
}

TEST(FuseRows, RowsFromMemoryNeedSaveLess) {
  const auto names = [](const std::string& type) {
    return names_of(after_fuse(
        program("%2: " + type + " = softmax(%0)\n%3: " + type + " = softmax_backward(%1, %2)\n", "%3", type), 1));
  };
  EXPECT_THAT(names("f32[2048,1000]"), ElementsAre("softmax", "softmax_backward"));
  EXPECT_THAT(names("f32[2100,1000]"), ElementsAre("fused")) << "8 MiB";
}

TEST(FuseRows, DamagedRegionsAreRefused) {
  const std::string good = graph::print(after_fuse(program(kSoftmax, "%8", "f32[4,5]")));
  const auto with = testing::errors_of(good);
  EXPECT_THAT(with("f32[4] = sum(%5) {axes=[1]", "f32[4] = argmax(%5) {axis=1"), HasSubstr("argmax"));
  EXPECT_THAT(with("return %8", "return %7"), HasSubstr("is no result of its region, or a view"));
  EXPECT_THAT(with("reshape(%6) {shape=[4,1]}", "reshape(%1) {shape=[4,1]}"), HasSubstr("reshape"));
}

// What isn't fused, and why.

std::vector<std::string> refused(graph::Graph graph, std::size_t least_bytes = 0) {
  std::vector<FusionRefusal> refusals;
  PassContext context(graph);
  context.least_fused_bytes = least_bytes;
  context.refusals = &refusals;
  fuse(graph, context);
  std::vector<std::string> texts;
  for (const FusionRefusal& refusal : refusals) {
    const std::string text = to_string(refusal);
    texts.push_back(text.substr(0, text.find(" (")));
  }
  return texts;
}

TEST(FuseRefusals, EachHasItsReason) {
  EXPECT_THAT(refused(program("%2: f32[4] = exp(%0)\n%3: f32[4] = neg(%2)\n", "%3")), ElementsAre());
  EXPECT_THAT(refused(program("%2: f32[4] = exp(%0)\n%3: f32[4] = neg(%2)\n", "%3"), 17),
              ElementsAre("%2 exp -> %3 neg: unprofitable by 2 ns"));
  EXPECT_THAT(refused(program("%2: f32[4,4] = exp(%0)\n%3: f32[4,4] = matmul(%2, %1)\n%4: f32[4,4] = neg(%3)\n", "%4",
                              "f32[4,4]")),
              ElementsAre("%2 exp -> %3 matmul: kind", "%3 matmul -> %4 neg: kind"));
  // A way out of the set and back in; a sum over columns.
  EXPECT_THAT(refused(program("%2: f32[4,4] = exp(%0)\n%3: f32[4] = sum(%2) {axes=[0]}\n%4: f32[4,4] = mul(%2, %3)\n",
                              "%4", "f32[4,4]")),
              ElementsAre("%2 exp -> %3 sum: shape", "%2 exp -> %4 mul: cycle", "%3 sum -> %4 mul: shape"));
  EXPECT_THAT(refused(program("%2: f32[4,4] = exp(%0)\n%3: f32[4,4] = permute(%2) {axes=[1,0]}\n"
                              "%4: f32[4,4] = mul(%0, %3)\n",
                              "%4", "f32[4,4]")),
              ElementsAre("%2 exp -> %4 mul: layout"));
  EXPECT_THAT(refused(program("%2: f32[64,64] = exp(%0)\n%3: f32[64,64] = permute(%2) {axes=[1,0]}\n"
                              "%4: f32[64,64] = mul(%0, %3)\n%5: f32[64,64] = softmax(%4)\n",
                              "%5", "f32[64,64]")),
              ElementsAre("%2 exp -> %4 mul: layout", "%4 mul -> %5 softmax: layout"))
      << "a transpose is read in blocks, not in rows";
  const std::string wide = "f32[2,30000]";
  EXPECT_THAT(refused(program("%2: " + wide + " = exp(%0)\n%3: " + wide + " = softmax(%2)\n", "%3", wide)),
              ElementsAre("%2 exp -> %3 softmax: larger than cache"));
  const std::string rows = "f32[400,500]";
  EXPECT_THAT(refused(program("%2: " + rows + " = exp(%0)\n%3: " + rows + " = softmax(%2)\n", "%3", rows), 1),
              ElementsAre("%2 exp -> %3 softmax: unprofitable by 18000 ns"));
  std::string lines;
  for (int i = 2; i < 82; ++i) {
    lines += "%" + std::to_string(i) + ": f32[4] = neg(%" + (i == 2 ? "0" : std::to_string(i - 1)) + ")\n";
  }
  EXPECT_THAT(refused(program(lines, "%81")), ElementsAre("%65 neg -> %66 neg: operands"));
  EXPECT_THAT(refused(graph::parse("graph \"g\"(%0: f32[4,4] argument \"x\", %1: i64[4] argument \"y\") {\n"
                                   "%2: f32[4,4] = exp(%0)\n%3: f32[4] = cross_entropy(%2, %1)\n return %3\n}")),
              ElementsAre("%2 exp -> %3 cross_entropy: effect"));
}

TEST(FuseRefusals, StandInTheRecordOfThePass) {
  const Tensor x = wave({40, 50}, 1);
  auto compiled = jit([](const Tensor& t) { return matmul(exp(t), transpose(t)); });
  compiled(x);
  const auto& records = compiled.compiled()->ledger().front().passes;
  ASSERT_EQ(records.back().name, "fuse");
  ASSERT_EQ(records.back().refusals.size(), 1U);
  const std::vector<RefusalGroup> groups = grouped(records.back().refusals);
  EXPECT_EQ(groups[0].producer + " " + groups[0].consumer + " " + std::string(name_of(groups[0].why)),
            "exp matmul kind");
}

TEST(FuseRefusals, WhatIsPrintedIsAnEffect) {
  std::ostringstream printed;
  debug::set_stream(&printed);
  auto compiled = jit([](const Tensor& t) { return exp(debug::print("between", neg(t))); });
  compiled(wave({8}, 1));
  debug::set_stream(nullptr);
  std::vector<std::string> texts;
  for (const FusionRefusal& refusal : compiled.compiled()->ledger().front().passes.back().refusals) {
    texts.push_back(to_string(refusal));
  }
  EXPECT_THAT(texts, ElementsAre(HasSubstr("neg -> %2 debug.print: effect"), HasSubstr("neg -> %3 exp: unprofitable")));
}

TEST(FuseRefusals, CommentsInIrTextAreSkipped) {
  const graph::Graph graph = graph::parse(
      "# before\ngraph \"g\"(%0: f32[4] argument \"x # y\") {  # here\n  # and here\n%1: f32[4] = neg(%0)\n return "
      "%1\n}"
      "\n# after");
  EXPECT_EQ(graph.inputs[0].name, "x # y");
  EXPECT_THAT(names_of(graph), ElementsAre("neg"));
}

// Each way in which an operand lies: dense, one value, a row for all rows, a value for each row, rows apart, columns
// apart, gathered; with rows longer and shorter than a tile.
TEST(Fuse, OperandsOfEveryLayoutGiveEagersBits) {
  const auto mixed = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const Tensor sum = add(mul(in[0], in[1]), in[2]);
    const Tensor chosen = where(greater(sum, in[0]), in[1], tanh(sum));
    return {mul(chosen, in[2]), sum};
  };
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 5}, {70, 33}, {300, 64}, {5, 4095}, {3, 20000}, {0, 7}}) {
    const Tensor x = wave({rows, columns}, 0.5F);
    const std::vector<Tensor> others = {wave({rows, columns}, 1),
                                        wave({}, 2),
                                        wave({columns}, 3),
                                        wave({rows, 1}, 4),
                                        wave({1, 1}, 5),
                                        slice(wave({rows, columns + 3}, 6), 1, 2, columns + 2),
                                        slice(wave({rows, 2 * columns}, 7), 1, 0, 2 * columns, 2),
                                        transpose(wave({columns, rows}, 8), 0, 1),
                                        flip(wave({rows, columns}, 9), {1})};
    for (std::size_t a = 0; a < others.size(); ++a) {
      for (std::size_t b = 0; b < others.size(); ++b) {
        expect_fused_bits(mixed, {x, others[a], others[b]},
                          to_string(x.type()) + " with " + std::to_string(a) + " and " + std::to_string(b));
      }
    }
  }
}

TEST(Fuse, ATransposeIsReadInBlocksWhereTheResultIsLarge) {
  const auto lines = [](const std::string& type) {
    return program(
        "%2: " + type + " = permute(%0) {axes=[1,0]}\n%3: " + type + " = add(%2, %1)\n%4: " + type + " = tanh(%3)\n",
        "%4", type);
  };
  EXPECT_THAT(names_of(after_fuse(lines("f32[64,64]"))), ElementsAre("permute", "fused"));
  EXPECT_THAT(names_of(after_fuse(lines("f32[31,31]"))), ElementsAre("permute", "add", "tanh"));
  EXPECT_THAT(names_of(after_fuse(lines("f32[1024,1024]"), kLeastFusedBytes)), ElementsAre("permute", "fused"));
  EXPECT_THAT(names_of(after_fuse(lines("f32[512,512]"), kLeastFusedBytes)), ElementsAre("permute", "add", "tanh"));
}

TEST(Fuse, TransposesGiveEagersBits) {
  const auto function = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const Tensor turned = transpose(in[0]);
    const Tensor sum = turned + in[1];
    const Tensor wide = cast(sum * transpose(in[0] + 1), DType::float64);
    return {tanh(sum) * in[2], wide * 2, greater(sum, turned), exp(sum)};
  };
  for (const Shape& shape :
       {Shape{32, 32}, Shape{70, 33}, Shape{129, 257}, Shape{33, 500}, Shape{3, 40, 96}, Shape{2, 3, 65, 32}}) {
    const std::int64_t columns = shape.back();
    const std::int64_t rows = shape[shape.rank() - 2];
    const Tensor x = transpose(copy(transpose(wave(shape, 1))));
    for (const Tensor& other : {wave({columns}, 2), wave({rows, 1}, 3), wave({}, 4), wave({rows, columns}, 5),
                                transpose(wave({columns, rows}, 6))}) {
      for (const int threads : {1, 3}) {
        const WithThreads with(threads, true);
        expect_fused_bits(function, {copy(transpose(wave(shape, 1))), other, wave(shape, 7)}, to_string(shape));
        expect_fused_bits(function, {transpose(x), other, other}, to_string(shape));
      }
    }
  }
}

TEST(Fuse, InnerAxesThatRepeatGiveEagersBits) {
  const auto add_all = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {exp(add(add(in[0], in[1]), in[2]))};
  };
  for (const std::int64_t length : {3, 700}) {
    expect_fused_bits(add_all, {wave({4, 5, 6, length}, 1), wave({4, 1, 6, 1}, 2), wave({5, 1, length}, 3)},
                      "four axes");
    expect_fused_bits(add_all, {wave({4, 5, 6, length}, 1), wave({5, 1, 1}, 2), wave({4, 1, 1, length}, 3)}, "gaps");
  }
}

TEST(Fuse, TypesMayDiffer) {
  const auto function = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const Tensor wide = cast(in[0], DType::float64);
    const Tensor mask = greater(wide, full_like(wide, 0.1));
    return {cast(mul(wide, cast(mask, DType::float64)), DType::bfloat16), mask, cast(mask, DType::int64)};
  };
  expect_fused_bits(function, {wave({70, 33}, 1)}, "types");
  expect_fused_bits(function, {wave({9000}, 1)}, "types");
}

// A state is overwritten while others of its elements are still to be read.
TEST(Fuse, StatesAreUpdatedInPlace) {
  const auto run = [](bool compiled) {
    Variable m(wave({9000}, 1));
    Variable v(wave({9000}, 2));
    Variable p(wave({9000}, 3));
    const auto step = [&](const Tensor& g) {
      m.assign(m.value() * 0.9 + g * 0.1);
      v.assign(v.value() * 0.99 + square(g) * 0.01);
      const Tensor old = p.value();
      p.assign(old - m.value() * 0.01 / (sqrt(abs(v.value())) + 1e-8));
      return sub(old, p.value());
    };
    auto fast = jit(step, {.pipeline = fusing_all()});
    std::vector<Tensor> results;
    for (int i = 0; i < 3; ++i) {
      const Tensor g = wave({9000}, static_cast<float>(i));
      results.push_back(compiled ? fast(g) : step(g));
    }
    if (compiled) {
      EXPECT_THAT(names_of(*fast.compiled()->graph()), ElementsAre("fused"));
    }
    results.insert(results.end(), {m.value(), v.value(), p.value()});
    return results;
  };
  expect_same_bits(run(true), run(false), "Adam");
}

/// Rows shorter and longer than a tile, one row, one column.
const std::vector<Shape> kRowShapes = {{1, 7}, {300, 64}, {70, 1000}, {2, 3, 4000}, {5000, 3}, {40, 1}, {9}};

TEST(FuseRows, NormalisationsWrittenByHandGiveEagersBits) {
  const auto layer_norm_by_hand = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const Tensor x = add(in[0], in[1]);
    const Tensor centred = sub(x, mean(x, {-1}, true));
    const Tensor deviation = sqrt(mean(square(centred), {-1}, true) + 1e-5);
    return {gelu(centred / deviation * in[2] + 1.0), x};
  };
  const auto softmax_by_hand = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const Tensor x = in[0] * 0.3 + in[1];
    const Tensor weights = exp(sub(x, max(x, {-1}, true)));
    return {div(weights, unsqueeze(sum(weights, {-1}), -1)), mul(weights, in[2])};
  };
  for (const Shape& shape : kRowShapes) {
    const Tensor x = wave(shape, 1);
    Shape column = shape;
    column[shape.rank() - 1] = 1;
    for (const Tensor& other : {wave(shape, 2), wave({}, 3), wave({shape.back()}, 4), wave(column, 5),
                                transpose(transpose(wave(shape, 6), 0, -1), 0, -1)}) {
      for (const Body& body : {Body(layer_norm_by_hand), Body(softmax_by_hand)}) {
        expect_fused_bits(body, {x, other, wave(shape, 7)}, to_string(shape) + " with " + to_string(other.shape()));
        expect_fused_bits(body, {other.shape() == shape ? other : x, x, wave({shape.back()}, 8)}, to_string(shape));
      }
    }
  }
}

TEST(FuseRows, OpsOfRowsWithWhatIsAroundThem) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const auto block = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      const Tensor x = add(in[0], in[1]);
      const Tensor y = layer_norm(x, {x.shape().back()}, in[2], in[3]);
      return {mul(relu(y), in[0]), x, softmax(rms_norm(y, {y.shape().back()}, in[2]))};
    };
    for (const Shape& shape : kRowShapes) {
      std::vector<Tensor> inputs = {wave(shape, 1), wave(shape, 2), wave({shape.back()}, 3), wave({shape.back()}, 4)};
      for (Tensor& input : inputs) {
        input = cast(input, dtype);
      }
      expect_fused_bits(block, inputs, to_string(inputs[0].type()));
      inputs[2] = expand(slice(inputs[2], 0, 0, 1), {shape.back()});
      expect_fused_bits(block, inputs, "one weight, " + to_string(inputs[0].type()));
    }
  }
}

// Every op that says it has rows, with a consumer.
TEST(FuseRows, EveryOpWithRowsGivesEagersBits) {
  std::set<std::string> tried;
  for (const OpDef* op : registry()) {
    if (op->rows == nullptr || op->can_fail) {
      continue;
    }
    for (const Sample& sample : op->samples()) {
      std::vector<Tensor> inputs;
      for (const SampleInput& input : sample.inputs) {
        inputs.push_back(cast(wave(input.type.shape, static_cast<float>(inputs.size())), input.type.dtype));
      }
      const auto function = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        // An op in front, too: what is found for a channel or a plane may have no reader inside.
        std::vector<Tensor> operands = in;
        operands[0] = in[0].dtype() == DType::boolean ? logical_not(in[0]) : square(in[0]);
        const Tensor result = called(*op, operands, sample.attributes.get());
        return {result, not_equal(result, result)};
      };
      std::vector<TensorType> types;
      std::vector<const TensorType*> pointers;
      for (const Tensor& input : inputs) {
        types.push_back(input.type());
      }
      for (const TensorType& type : types) {
        pointers.push_back(&type);
      }
      const TensorType result = function(inputs)[0].type();
      if (op->rows_of(pointers, sample.attributes.get(), result).layout.count > 0) {
        tried.insert(op->name);
        expect_fused_bits(function, inputs, std::string(op->name) + " of " + to_string(inputs[0].type()));
      }
    }
  }
  EXPECT_THAT(tried, ::testing::IsSupersetOf({"softmax", "log_softmax_backward", "layer_norm", "rms_norm_statistics",
                                              "layer_norm_input_gradient", "sum", "prod", "max", "min", "any", "all",
                                              "var", "std", "logsumexp", "batch_norm", "batch_norm_statistics",
                                              "batch_norm_input_gradient", "batch_norm_weight_gradient"}));
}

// Temporaries that every tile reads, as a column for all rows and as a weight: the sums of rows, of the same size, must
// not be written to their places.
TEST(FuseRows, AnInputThatEveryTileReadsIsNotOverwritten) {
  const auto column = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {cumsum(sum(mul(in[1], cumsum(in[0], 0)), {1}), 0)};
  };
  expect_fused_bits(column, {wave({700}, 1), wave({700, 700}, 2)}, "column");
  const auto weight = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {cumsum(sum(rms_norm(in[1], {700}, cumsum(in[0], 0)), {1}), 0)};
  };
  expect_fused_bits(weight, {wave({700}, 1), wave({700, 700}, 2)}, "weight");
}

TEST(FuseRows, GradientsOfHandWrittenNormsFuseToo) {
  const auto loss = [](const Tensor& x) {
    const Tensor centred = sub(x, mean(x, {-1}, true));
    return sum(tanh(centred / sqrt(mean(square(centred), {-1}, true) + 1e-5)));
  };
  const Tensor x = wave({40, 50}, 1);
  auto compiled = jit(grad(loss), {.pipeline = fusing_all()});
  expect_same_bits(compiled(x), grad(loss)(x), "gradient");
  EXPECT_LE(compiled.compiled()->graph()->nodes.size(), 6U) << graph::print(*compiled.compiled()->graph());
}

// Two steps in one loop (framework/kernels/pair_loops.h).

Tensor with_special_values(const Shape& shape, float phase) {
  std::vector<float> values = wave(shape, phase).to_vector<float>();
  const float special[] = {0.0F, -0.0F, 1e-40F, 3e38F, -3e38F, HUGE_VALF, -HUGE_VALF, std::nanf("")};
  for (std::size_t i = 6; i < values.size(); i += 7) {  // a single value stays ordinary
    values[i] = special[(i / 7 + static_cast<std::size_t>(phase) * 3) % std::size(special)];
  }
  return Tensor::from(values, shape);
}

TEST(FusePairs, HaveTheBitsOfTheirOps) {
  using Unary = Tensor (*)(const Tensor&);
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  const Unary unaries[] = {[](const Tensor& x) { return neg(x); }, [](const Tensor& x) { return square(x); },
                           [](const Tensor& x) { return relu(x); }};
  const Binary binaries[] = {[](const Tensor& x, const Tensor& y) { return add(x, y); },
                             [](const Tensor& x, const Tensor& y) { return sub(x, y); },
                             [](const Tensor& x, const Tensor& y) { return mul(x, y); }};
  std::vector<std::function<Tensor(const std::vector<Tensor>&)>> firsts;
  for (const Unary f : unaries) {
    firsts.emplace_back([=](const std::vector<Tensor>& in) { return f(in[0]); });
  }
  for (const Binary f : binaries) {
    firsts.emplace_back([=](const std::vector<Tensor>& in) { return f(in[0], in[1]); });
  }
  const auto each = [&](const std::function<void(const Body&)>& check) {
    for (const auto& first : firsts) {
      for (const Unary second : unaries) {
        check([=](const std::vector<Tensor>& in) { return std::vector{second(first(in))}; });
      }
      for (const Binary second : binaries) {
        check([=](const std::vector<Tensor>& in) { return std::vector{second(first(in), in[2])}; });
        check([=](const std::vector<Tensor>& in) { return std::vector{second(in[2], first(in))}; });
        // The result of the first is read twice, or kept, or more follows.
        check([=](const std::vector<Tensor>& in) {
          const Tensor x = first(in);
          return std::vector{second(x, x), second(neg(x), in[2])};
        });
        check([=](const std::vector<Tensor>& in) {
          const Tensor x = first(in);
          return std::vector{relu(second(second(x, in[2]), in[1])), x};
        });
      }
    }
  };
  // Dense, one value, a value a column, a value a row.
  const std::vector<Shape> shapes = {{60, 70}, {}, {70}, {60, 1}};
  int fused = 0;
  const auto check_all = [&](const Shape& second, const Shape& third) {
    const std::vector<Tensor> inputs = {with_special_values({60, 70}, 1), with_special_values(second, 2),
                                        with_special_values(third, 3)};
    each([&](const Body& body) {
      auto compiled = jit(body, {.pipeline = fusing_all()});
      expect_same_bits(compiled(inputs), body(inputs), to_string(second) + to_string(third));
      const std::vector<std::string> names = names_of(*compiled.compiled()->graph());
      fused += static_cast<int>(std::count(names.begin(), names.end(), "fused"));
    });
  };
  for (const Shape& second : shapes) {
    for (const Shape& third : shapes) {
      check_all(second, third);
    }
  }
  EXPECT_GT(fused, 1200);  // of 1,440 programs: some are simplified to one op
  for (const Isa isa : {Isa::generic, Isa::avx2}) {
    if (is_supported(isa)) {
      const WithIsa with(isa);
      check_all({60, 70}, {60, 70});
    }
  }
}

TEST(FusePairs, AreOfSimpleFunctionsOfFloats) {
  const auto pair = [](const OpDef& first, const OpDef& second, DType dtype, std::size_t place = 0) {
    const TensorType type{dtype, {4}};
    const TensorType* const types[] = {&type, &type};
    const auto loop = [&](const OpDef& op) { return op.loop({types, static_cast<std::size_t>(op.inputs)}, type); };
    return kernels::pair_loop(loop(first), loop(second), place);
  };
  EXPECT_NE(pair(op::mul, op::add, DType::float32), nullptr);
  EXPECT_EQ(pair(op::mul, op::add, DType::float32), pair(op::mul, op::add, DType::float32, 1));
  EXPECT_NE(pair(op::mul, op::sub, DType::float32), pair(op::mul, op::sub, DType::float32, 1));
  EXPECT_NE(pair(op::add, op::relu, DType::float32), nullptr);
  EXPECT_NE(pair(op::square, op::neg, DType::float32), nullptr);
  EXPECT_EQ(pair(op::mul, op::add, DType::float64), nullptr);
  EXPECT_EQ(pair(op::mul, op::add, DType::int32), nullptr);
  EXPECT_EQ(pair(op::exp, op::add, DType::float32), nullptr);
  EXPECT_EQ(pair(op::mul, op::exp, DType::float32), nullptr);
  const WithoutKernels idle;
  EXPECT_EQ(pair(op::mul, op::add, DType::float32), nullptr);
}

TEST(Fuse, GradientsOfACompiledFunction) {
  const auto loss = [](const Tensor& x) { return sum(tanh(mul(exp(x), sigmoid(x)))); };
  const Tensor x = wave({40, 50}, 1);
  expect_same_bits(grad(jit(loss, {.pipeline = fusing_all()}))(x), grad(loss)(x), "gradient");
}

}  // namespace
}  // namespace diptych::passes
