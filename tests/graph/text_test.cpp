#include <bit>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/dispatch/op.h"
#include "tests/graph/variants.h"

namespace diptych::graph {
namespace {

using diptych::testing::f32;
using diptych::testing::i64;
using diptych::testing::message_of;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void expect_same_graph(const Graph& a, const Graph& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.outputs, b.outputs);
  ASSERT_EQ(a.inputs.size(), b.inputs.size());
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    EXPECT_EQ(a.inputs[i].value, b.inputs[i].value);
    EXPECT_EQ(a.inputs[i].kind, b.inputs[i].kind);
    EXPECT_EQ(a.inputs[i].name, b.inputs[i].name);
    EXPECT_EQ(a.types[a.inputs[i].value], b.types[b.inputs[i].value]);
  }
  ASSERT_EQ(a.constants.size(), b.constants.size());
  for (std::size_t i = 0; i < a.constants.size(); ++i) {
    EXPECT_EQ(a.constants[i].first, b.constants[i].first);
    const Tensor& x = a.constants[i].second;
    const Tensor& y = b.constants[i].second;
    ASSERT_EQ(x.type(), y.type()) << "constant " << i;
    visit(x.dtype(), [&]<class T>() {  // stricter than bitwise_equal: a NaN keeps its sign and payload here
      const std::size_t bytes = static_cast<std::size_t>(x.numel()) * sizeof(T);
      EXPECT_TRUE(bytes == 0 || std::memcmp(x.data<T>(), y.data<T>(), bytes) == 0) << "constant " << i;
    });
  }
  ASSERT_EQ(a.nodes.size(), b.nodes.size());
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const Node& x = a.nodes[i];
    const Node& y = b.nodes[i];
    EXPECT_EQ(x.op, y.op);
    EXPECT_TRUE(x.attributes == y.attributes) << x.op->name;
    EXPECT_EQ(x.inputs, y.inputs);
    EXPECT_EQ(x.outputs, y.outputs);
    EXPECT_EQ(a.types[x.output()], b.types[y.output()]);
    EXPECT_EQ(x.provenance.source_ops, y.provenance.source_ops);
    EXPECT_STREQ(x.provenance.scope, y.provenance.scope);
    EXPECT_STREQ(x.provenance.where.file, y.provenance.where.file);
    EXPECT_EQ(x.provenance.where.line, y.provenance.where.line);
  }
  ASSERT_EQ(a.updates.size(), b.updates.size());
  for (std::size_t i = 0; i < a.updates.size(); ++i) {
    EXPECT_EQ(a.updates[i].input, b.updates[i].input);
    EXPECT_EQ(a.updates[i].value, b.updates[i].value);
  }
}

void expect_round_trip(const Graph& graph) {
  const std::string text = print(graph);
  SCOPED_TRACE(text);
  const Graph back = parse(text);
  expect_same_graph(graph, back);
  EXPECT_EQ(print(back), text);
}

template <class Fn>
void expect_round_trip_of(const Fn& fn, const Tensor& x) {
  for (const auto& variant : diptych::testing::pipeline_variants()) {
    auto function = jit(fn, {.name = variant.name, .pipeline = variant.pipeline});
    function(x);
    expect_round_trip(*function.compiled()->graph());
  }
}

TEST(GraphText, ViewsComeBack) {
  expect_round_trip_of(
      [](const Tensor& x) {
        return std::vector<Tensor>{transpose(x), reshape(x, {3, 2, 1}), expand(reshape(x, {1, 6}), {4, 6}),
                                   slice(x, 1, 0, 3, 2), permute(reshape(x, {1, 2, 3}), {2, 0, 1})};
      },
      diptych::testing::ramp({2, 3}));
}

TEST(GraphText, EveryOpOfTheRegistryComesBackFromItsSamples) {
  std::size_t graphs = 0;
  for (const OpDef* op : registry()) {
    if (op->samples == nullptr) {
      continue;
    }
    for (const Sample& sample : op->samples()) {
      Graph graph;
      graph.name = op->name;
      Node node{op,
                sample.attributes.type() == nullptr ? AttributeValue(op->attributes, nullptr) : sample.attributes,
                {},
                {},
                {{0, 7}, "net.0", {"model.cpp", 12}}};
      for (const SampleInput& input : sample.inputs) {
        node.inputs.push_back(graph.new_value(input.type));
        graph.inputs.push_back({node.inputs.back(), InputKind::argument, "x", {}, {}});
      }
      const auto types = graph.input_types(node);
      TensorType type;
      op->infer({*op, types, node.attributes.get(), {}}, type);
      node.outputs = {graph.new_value(type)};
      graph.outputs = node.outputs;
      graph.nodes.push_back(node);
      expect_round_trip(graph);
      ++graphs;
    }
  }
  EXPECT_GT(graphs, 100U);
}

TEST(GraphText, StateUpdatesComeBack) {
  const Variable momentum(f32({1, 2}, {2}), "momentum");
  const Variable weight(f32({3, 4}, {2}), "weight");
  Variable m = momentum;
  Variable w = weight;
  expect_round_trip_of(
      [&](const Tensor& x) {
        m.assign(m.value() * 0.9F + x);
        w.assign(w.value() - m.value());
        return w.value();
      },
      f32({1, 1}, {2}));
}

TEST(GraphText, AGraphWithoutOutputsComesBack) {
  Variable counter(Tensor::scalar(0.0F), "counter");
  expect_round_trip_of(
      [&](const Tensor& x) {
        counter.assign(counter.value() + x);
        return std::vector<Tensor>{};
      },
      Tensor::scalar(1.0F));
  expect_round_trip_of([](const Tensor&) { return std::vector<Tensor>{}; }, Tensor::scalar(1.0F));
}

TEST(GraphText, ScalarAttributesComeBackToTheBit) {
  expect_round_trip_of(
      [](const Tensor& x) {
        Tensor sum = x;
        for (double value : {-0.0, 0.1, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, 2.2250738585072011e-308,
                             std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
          sum = sum + full({2}, value, DType::float64);
        }
        return sum;
      },
      Tensor::from<double>({1, 2}, {2}));
}

template <class T>
Tensor from_bits(std::vector<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>> patterns) {
  std::vector<T> values(patterns.size());
  std::memcpy(values.data(), patterns.data(), patterns.size() * sizeof(T));
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

Graph graph_of_constants(const std::vector<Tensor>& tensors) {
  Graph graph;
  graph.name = "constants";
  for (const Tensor& tensor : tensors) {
    graph.outputs.push_back(graph.new_value(tensor.type()));
    graph.constants.emplace_back(graph.outputs.back(), tensor);
  }
  verify(graph);
  return graph;
}

TEST(GraphText, ConstantsOfEveryTypeComeBackToTheBit) {
  std::vector<Tensor> tensors{
      from_bits<float>({0x00000000U, 0x80000000U, 0x7F800000U, 0xFF800000U, 0x7FC00000U, 0xFFC00000U, 0x7FC12345U,
                        0xFFFFFFFFU, 0x7F800001U, 0x00000001U, 0x80000001U, 0x007FFFFFU, 0x00800000U, 0x7F7FFFFFU,
                        0x3DCCCCCDU, 0x3F800001U}),
      from_bits<double>({0x0ULL, 0x8000000000000000ULL, 0x7FF0000000000000ULL, 0xFFF0000000000000ULL,
                         0x7FF8000000000000ULL, 0xFFF8000000012345ULL, 0x7FF0000000000001ULL, 0x1ULL,
                         0x8000000000000001ULL, 0x000FFFFFFFFFFFFFULL, 0x7FEFFFFFFFFFFFFFULL, 0x3FB999999999999AULL}),
      Tensor::from<std::int32_t>(
          {0, -1, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()}, {2, 2}),
      i64({std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), (1LL << 53) + 1}, {3}),
      Tensor::from<bool>({true, false, false}, {1, 3, 1}),
      Tensor::from<bool>({true}, {}),
      Tensor::from<float>({}, {0, 3}),
      Tensor::from<std::int64_t>({}, {2, 0})};
  // All elements alike: the short form.
  for (std::uint32_t pattern : {0x80000000U, 0x7FC12345U, 0xFF800000U, 0x00000001U, 0x3DCCCCCDU}) {
    tensors.push_back(from_bits<float>({pattern, pattern, pattern}));
  }
  tensors.push_back(Tensor::from<bool>({false, false}, {2}));
  tensors.push_back(i64({-7, -7}, {2, 1}));
  expect_round_trip(graph_of_constants(tensors));
}

TEST(GraphText, RandomBitPatternsComeBack) {
  std::uint64_t state = 0x1234;
  const auto next = [&] { return state = state * 6364136223846793005ULL + 1442695040888963407ULL; };
  std::vector<std::uint32_t> singles;
  std::vector<std::uint64_t> doubles;
  for (int i = 0; i < 20000; ++i) {
    singles.push_back(static_cast<std::uint32_t>(next() >> 32U));
    doubles.push_back(next() ^ (next() >> 32U));
  }
  expect_round_trip(graph_of_constants({from_bits<float>(singles), from_bits<double>(doubles)}));
}

TEST(GraphText, HostileNamesComeBack) {
  std::string every_byte;
  for (int byte = 1; byte < 256; ++byte) {
    every_byte += static_cast<char>(byte);
  }
  const std::string with_nul("a\0b", 3);
  for (const std::string& name :
       {std::string(), std::string("\"quoted\""), std::string("line\nline\r\n\ttab"), std::string("back\\slash\\"),
        std::string("\\x41"), std::string("%0: f32[2] = add(%1)"), std::string("} return"), every_byte, with_nul}) {
    SCOPED_TRACE(quote(name));
    Variable state(f32({1}, {1}), name);
    auto function = jit(
        [&](const Tensor& x) {
          const ModuleScope scope(name.c_str());
          state.assign(state.value() + x);
          return x + 1;
        },
        {.name = name, .pipeline = passes::PipelineOptions::none()});
    function(f32({1}, {1}));
    Graph graph = *function.compiled()->graph();
    EXPECT_EQ(graph.inputs[1].name, name);
    graph.nodes[0].provenance.where.file = intern(name);
    expect_round_trip(graph);
    EXPECT_EQ(print(graph).find('\r'), std::string::npos) << "control characters are escaped";
  }
}

TEST(GraphText, QuotesAreReadBackByTheParser) {
  EXPECT_EQ(quote("a\"b\\c\n"), "\"a\\\"b\\\\c\\x0a\"");
  EXPECT_EQ(quote("\u202e\xc2\x9b\xff"), "\"\\xe2\\x80\\xae\\xc2\\x9b\\xff\"") << "nothing that acts on a terminal";
  EXPECT_EQ(quote("é日\ufffd"), "\"é日\ufffd\"");
  EXPECT_EQ(parse("graph \"a\\x41\\\"\"() {\n  return\n}\n").name, "aA\"");
}

constexpr const char* kGood =
    "graph \"g\"(\n"
    "    %0: f32[2] argument \"x\",\n"
    "    %1: f32[2] state \"v\") {\n"
    "  const %2: f32[2] = {1, 2}\n"
    "  %3: f32[2] = add(%0, %2)  @ [0] \"\" \"m.cpp\" 1\n"
    "  %4: f32[] = sum(%3) {axes=[0], keepdims=false}  @ [1] \"\" \"m.cpp\" 2\n"
    "  update %1 <- %3\n"
    "  return %4\n"
    "}\n";

TEST(GraphText, ReadsWhatAHumanWrites) {
  const Graph graph = parse(
      "  graph \"g\" ( %0 : f32[2] argument \"x\" ) {\n\n"
      "  %1: f32[2] = exp( %0 )\n"
      "  return %1 }  ");
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_STREQ(graph.nodes[0].op->name, "exp");
  EXPECT_TRUE(graph.nodes[0].provenance.source_ops.empty());
}

struct Damage {
  const char* from;
  const char* to;
  int line;
};

TEST(GraphText, AnErrorNamesItsLine) {
  ASSERT_NO_THROW(parse(kGood));
  const std::vector<Damage> damages{{"graph", "grph", 1},
                                    {"\"g\"(", "\"g\"[", 1},
                                    {"f32[2] argument", "f33[2] argument", 2},
                                    {"f32[2] argument", "f32 argument", 2},
                                    {"f32[2] argument", "f32[2 argument", 2},
                                    {"f32[2] argument", "f32[-2] argument", 2},
                                    {"f32[2] argument", "f32[99999999999999] argument", 2},
                                    {"argument", "argment", 2},
                                    {"state \"v\"", "state v", 3},
                                    {"{1, 2}", "{1}", 4},
                                    {"{1, 2}", "{1, 2, 3}", 4},
                                    {"{1, 2}", "{1, x}", 4},
                                    {"{1, 2}", "{1, bits:0x}", 4},
                                    {"{1, 2}", "splat x", 4},
                                    {"add(", "ad(", 5},
                                    {"add(%0, %2)", "add %0, %2", 5},
                                    {"add(%0, %2)", "add(%0, %9)", 5},
                                    {"add(%0, %2)", "add(0, %2)", 5},
                                    {"[0] \"\"", "[a] \"\"", 5},
                                    {"add(%0, %2)", "add(%0, %2) {axis=1}", 5},
                                    {"keepdims=false", "keepdims=no", 6},
                                    {"keepdims=false", "keep=false", 6},
                                    {"axes=[0]", "axes=0", 6},
                                    {"axes=[0]", "axes=[0,]", 6},
                                    {"update %1", "update %7", 7},
                                    {"<- %3", "= %3", 7},
                                    {"<- %3", "<- %33", 7},
                                    {"update", "opdate", 7},
                                    {"}\n", "", 9},
                                    {"}\n", "}\nmore", 10}};
  for (const Damage& damage : damages) {
    std::string text = kGood;
    const std::size_t at = std::string(damage.from) == "}\n" ? text.rfind(damage.from) : text.find(damage.from);
    ASSERT_NE(at, std::string::npos) << damage.from;
    text.replace(at, std::string(damage.from).size(), damage.to);
    EXPECT_THAT(message_of<Error>([&] { parse(text); }),
                StartsWith("graph text, line " + std::to_string(damage.line) + ":"))
        << damage.from << " -> " << damage.to;
  }
}

TEST(GraphText, AGraphThatIsWellWrittenButMalformedIsAnError) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = kGood;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const std::string& text :
       {with("%3: f32[2]", "%3: f32[3]"), with("%3: f32[2]", "%0: f32[2]"), with("add(%0, %2)", "add(%0)"),
        with("add(%0, %2)", "add(%0, %3)"), with("update %1 <- %3", "update %0 <- %3"),
        with("update %1 <- %3", "update %1 <- %4"), with("return %4", "return %5")}) {
    SCOPED_TRACE(text);
    EXPECT_THAT(message_of<Error>([&] { parse(text); }), HasSubstr("graph"));
  }
}

TEST(GraphText, ValueIdsThatAreTooLargeAreRefused) {
  EXPECT_THAT(message_of<Error>([] { parse("graph \"g\"(%4294967295: f32[2] argument \"x\") { return }"); }),
              HasSubstr("too large"));
  EXPECT_THROW(parse("graph \"g\"(%99999999999: f32[2] argument \"x\") { return }"), Error);
}

// Each is small enough by itself.
TEST(GraphText, ManyThatAreLargeTogetherAreRefused) {
  std::string regions;
  for (int i = 0; i < 20; ++i) {
    regions += fmt::format("{}graph \"r\"(%900: f32[2] argument \"x\") {{ return %900 }}", i == 0 ? "" : ", ");
  }
  EXPECT_THAT(
      message_of<Error>([&] {
        parse("graph \"g\"(%0: f32[2] argument \"x\") {\n  %1: f32[2] = fused(%0) [ " + regions + " ]\n  return %1\n}");
      }),
      HasSubstr("a value id is too large"));
  const auto constants = [](int count, int elements) {
    std::string text = "graph \"g\"() {\n";
    for (int i = 0; i < count; ++i) {
      text += fmt::format("  const %{}: bool[{}] = splat true\n", i, elements);
    }
    return text + "  return %0\n}";
  };
  EXPECT_THAT(message_of<Error>([&] { parse(constants(17, 4'000'000)); }),
              AllOf(HasSubstr("line 18"), HasSubstr("a constant is too large, 4000000 elements, beside the others")));
  EXPECT_EQ(parse(constants(200, 1 << 18)).constants.size(), 200U) << "the largest that constant folding makes";
  EXPECT_THAT(message_of<Error>([] { parse("graph \"g\"() {\n  const %0: f32[5000000] = splat 1\n  return %0\n}"); }),
              HasSubstr("a constant is too large, 5000000 elements"));
}

TEST(GraphText, ElementsAreReadToTheirEnd) {
  for (const auto& [type, element] : {std::pair{"i64[1]", "1.9"},
                                      {"i32[1]", "1e3"},
                                      {"f32[1]", "0x10"},
                                      {"f32[1]", "1.5x"},
                                      {"f64[1]", "bits:0x3ff0g"},
                                      {"bool[1]", "truest"}}) {
    const std::string text = fmt::format("graph \"g\"() {{\n  const %0: {} = {{{}}}\n  return %0\n}}", type, element);
    EXPECT_THAT(message_of<Error>([&] { parse(text); }),
                HasSubstr(fmt::format("'{}' is no element of the constant's type", element)));
  }
}

TEST(GraphText, LineBreaksInsideNamesDoNotBreakTheLines) {
  Variable state(f32({1}, {1}), "a\nb\n");
  auto function = jit([&](const Tensor& x) { return x + state.value(); }, {.name = "g"});
  function(f32({1}, {1}));
  const std::string text = print(*function.compiled()->graph());
  std::string damaged = text;
  damaged.replace(damaged.find("add("), 4, "ad(");
  EXPECT_THAT(message_of<Error>([&] { parse(damaged); }), StartsWith("graph text, line 4:"));
}

}  // namespace
}  // namespace diptych::graph
