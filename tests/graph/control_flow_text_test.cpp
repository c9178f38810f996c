// Regions in the text form, in the verifier, in passes and in diagrams.

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::f32;
using diptych::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kScanText =
    "graph \"g\"(%0: f32[3,2] argument \"xs\", %1: f32[2] argument \"c\", %2: f32[] argument \"w\") {\n"
    "  %3: f32[2], %4: f32[3,2] = scan(%1, %0, %2) {carries=1, scanned=1, length=3, reverse=true, bounded=false} [\n"
    "    graph \"body\"(%0: f32[2] argument \"c\",\n"
    "        %1: f32[2] argument \"x\",\n"
    "        %2: f32[] argument \"w\") {\n"
    "      %3: f32[2] = mul(%1, %2)  @ [] \"\" \"\" 0\n"
    "      %4: f32[2] = add(%0, %3)  @ [] \"\" \"\" 0\n"
    "      return %4, %3\n"
    "    }\n"
    "  ]  @ [3,4] \"net\" \"model.cpp\" 12\n"
    "  return %3, %4\n"
    "}\n";

constexpr const char* kCondText =
    "graph \"g\"(%0: bool[] argument \"p\", %1: f32[2] argument \"x\") {\n"
    "  %2: f32[2] = cond(%0, %1) [\n"
    "    graph \"then\"(%0: f32[2] argument \"x\") {\n"
    "      const %1: f32[] = {2}\n"
    "      %2: f32[2] = mul(%0, %1)  @ [] \"\" \"\" 0\n"
    "      return %2\n"
    "    },\n"
    "    graph \"else\"(%0: f32[2] argument \"x\") {\n"
    "      return %0\n"
    "    }\n"
    "  ]  @ [] \"\" \"\" 0\n"
    "  return %2\n"
    "}\n";

constexpr const char* kWhileText =
    "graph \"g\"(%0: f32[] argument \"x\", %1: f32[] argument \"limit\") {\n"
    "  %2: f32[], %3: f32[5], %4: i64[] = while_loop(%0, %1) {carries=1, limit=5, record=true} [\n"
    "    graph \"condition\"(%0: f32[] argument \"x\", %1: f32[] argument \"limit\") {\n"
    "      %2: bool[] = less(%0, %1)  @ [] \"\" \"\" 0\n"
    "      return %2\n"
    "    },\n"
    "    graph \"body\"(%0: f32[] argument \"x\", %1: f32[] argument \"limit\") {\n"
    "      %2: f32[] = add(%0, %0)  @ [] \"\" \"\" 0\n"
    "      return %2\n"
    "    }\n"
    "  ]  @ [] \"\" \"\" 0\n"
    "  return %2, %3, %4\n"
    "}\n";

std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& arguments) {
  std::vector<Strides> strides;
  for (const Tensor& argument : arguments) {
    strides.push_back(argument.strides());
  }
  runtime::Executable executable(graph, strides, {});
  std::vector<Tensor> outputs;
  executable.run(arguments, outputs);
  return outputs;
}

TEST(ControlFlowText, ComesBackAndRuns) {
  for (const char* text : {kScanText, kCondText, kWhileText}) {
    const std::string printed = print(parse(text));
    EXPECT_EQ(print(parse(printed)), printed);
  }
  const auto scanned =
      run(parse(kScanText), {f32({1, 2, 3, 4, 5, 6}, {3, 2}), f32({10, 20}, {2}), Tensor::scalar(2.0F)});
  diptych::testing::expect_same_bits(scanned, {f32({28, 44}, {2}), f32({2, 4, 6, 8, 10, 12}, {3, 2})}, "scan");
  for (const bool predicate : {true, false}) {
    const auto chosen = run(parse(kCondText), {Tensor::scalar(predicate), f32({1, 2}, {2})});
    diptych::testing::expect_same_bits(chosen[0], predicate ? f32({2, 4}, {2}) : f32({1, 2}, {2}), "cond");
  }
  const auto looped = run(parse(kWhileText), {Tensor::scalar(1.0F), Tensor::scalar(6.0F)});
  diptych::testing::expect_same_bits(
      looped, {Tensor::scalar(8.0F), f32({1, 2, 4, 0, 0}, {5}), Tensor::scalar(std::int64_t{3})}, "while_loop");
}

TEST(ControlFlowText, CapturedGraphsComeBack) {
  Variable state(f32({1, 2}, {2}), "state");
  auto graph = jit([&](const Tensor& xs) {
    const auto [c, ys] = scan(
        [&](const Tensor& carry, const Tensor& x) {
          state.assign(state + x);
          const Tensor next = cond(
              greater(sum(x), Tensor::scalar(0.0F)), [&] { return carry * state; }, [&] { return carry - 1; });
          return std::pair(next, std::pair(sum(next), debug::print("x", x)));
        },
        ones({2}), xs);
    return std::pair(c, ys.first);
  });
  std::ostringstream ignored;
  debug::set_stream(&ignored);
  graph(f32({1, 2, -3, 4, 5, -6}, {3, 2}));
  debug::set_stream(nullptr);
  const std::string text = print(*graph.compiled()->graph());
  EXPECT_EQ(print(parse(text)), text);
  EXPECT_THAT(text, AllOf(HasSubstr("= scan("), HasSubstr("graph \"cond.then\""), HasSubstr("debug.print(")));
}

struct RegionDamage {
  const char* from;
  const char* to;
  const char* why;
};

std::string damaged(std::string text, const RegionDamage& damage) {
  const std::size_t at = text.find(damage.from);
  EXPECT_NE(at, std::string::npos) << damage.from;
  return text.replace(at, std::string_view(damage.from).size(), damage.to);
}

TEST(ControlFlowText, RefusesWhatDoesNotFit) {
  const auto expect_refused = [](const char* text, std::initializer_list<RegionDamage> damages) {
    for (const RegionDamage& damage : damages) {
      EXPECT_THAT(message_of<Error>([&] { parse(damaged(text, damage)); }), HasSubstr(damage.why)) << damage.to;
    }
  };
  expect_refused(
      kScanText,
      {{"length=3", "length=4", "`length` rows"},
       {"length=3", "length=-1", "length is out of range"},
       {"carries=1", "carries=-1", "too few inputs"},
       {"carries=1", "carries=9223372036854775807", "too few inputs"},
       {"carries=1", "carries=2", "a scanned input doesn't have `length` rows"},
       {"scanned=1", "scanned=3", "too few inputs"},
       {"bounded=false", "bounded=true", "the count is f32[2], not i64[]"},
       {"scan(%1, %0, %2)", "scan(%1, %0)", "another number of inputs"},
       {"%3: f32[2], %4: f32[3,2] =", "%3: f32[2] =", "scan has 2 outputs"},
       {"%4: f32[3,2] = scan", "%4: f32[2,2] = scan", "output 1 of scan has type f32[2,2], inferred f32[3,2]"},
       {"return %4, %3", "return", "gives nothing"},
       {"= mul(%1, %2)", "= mul(%1, %9)", "before its definition"},
       {"argument \"x\"", "state \"x\"", "arguments only"},
       {"%2: f32[] argument \"w\") {\n      %3", "%2: f64[] argument \"w\") {\n      %3", "in a region of scan"}});
  expect_refused(kCondText, {{"bool[] argument", "f32[] argument", "the predicate is f32[], not bool[]"},
                             {"      return %0\n", "      return %0, %0\n", "different numbers of results"},
                             {"cond(%0, %1)", "cond()", "too few inputs"},
                             {"cond(%0, %1)", "exp(%1)", "exp has one output and no regions"}});
  expect_refused(kWhileText, {{"limit=5", "limit=0", "what records has a limit"},
                              {"limit=5", "limit=4", "output 1 of while_loop has type f32[5], inferred f32[4]"},
                              {"limit=5", "limit=99999999999999", "limit is out of range"},
                              {"      %2: bool[] = less(%0, %1)", "      %2: f32[] = add(%0, %1)", "gives no bool[]"}});
}

TEST(ControlFlowText, NestingHasAnEnd) {
  std::string text = "graph \"g\"(%0: bool[] argument \"p\") {\n";
  for (int i = 0; i < 20000; ++i) {
    text += "%1: bool[] = cond(%0, %0) [graph \"g\"(%0: bool[] argument \"p\") {\n";
  }
  EXPECT_THAT(message_of<Error>([&] { parse(text); }), HasSubstr("nested too deeply"));
}

TEST(ControlFlowPasses, RunInsideRegions) {
  auto graph = jit([](const Tensor& xs) {
    return scan(
               [](const Tensor& c, const Tensor& x) {
                 const Tensor unused = exp(x);
                 const Tensor twice = tanh(c) + tanh(c);           // one tanh
                 return std::pair(twice * 1 + x, std::tuple<>());  // no product
               },
               zeros({2}), xs)
        .first;
  });
  graph(ones({3, 2}));
  const std::string text = print(*graph.compiled()->graph());
  EXPECT_THAT(text, AllOf(Not(HasSubstr("exp(")), Not(HasSubstr("mul("))));
  EXPECT_EQ(text.find("tanh("), text.rfind("tanh("));
  EXPECT_LT(graph.compiled()->ledger()[0].nodes, graph.compiled()->ledger()[0].captured_nodes);
}

TEST(ControlFlowPasses, DropALoopThatNobodyNeeds) {
  auto graph = jit([](const Tensor& xs) {
    scan([](const Tensor& c, const Tensor& x) { return std::pair(c + x, c); }, zeros({2}), xs);
    return sum(xs);
  });
  graph(ones({3, 2}));
  EXPECT_THAT(print(*graph.compiled()->graph()), Not(HasSubstr("scan")));
}

TEST(ControlFlowVerify, FindsDamageInARegion) {
  Graph graph = parse(kCondText);
  auto region = std::make_shared<Graph>(*graph.nodes[0].regions[0]);
  region->nodes[0].inputs[0] = 77;
  graph.nodes[0].regions[0] = region;
  EXPECT_THAT(message_of<InternalError>([&] { verify(graph); }),
              AllOf(HasSubstr("in a region of cond"), HasSubstr("before mul uses it")));
}

}  // namespace
}  // namespace diptych::graph
