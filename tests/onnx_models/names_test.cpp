// What the values of a file are called in everything made from a model: the IR, pictures, traces and tables.

#include <algorithm>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/text.h"
#include "framework/diptych.h"
#include "profiler/trace/chrome_trace.h"
#include "reports/diagrams/diagram.h"
#include "reports/diagrams/graph_diagram.h"
#include "reports/views/graph_inputs.h"
#include "tests/onnx/imported.h"

namespace diptych::onnx {
namespace {

using diptych::testing::Builder;
using diptych::testing::graph_of;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

/// x -> x @ w - b: two ops.
Builder layer(const std::string& x, const std::string& w, const std::string& b) {
  return Builder()
      .input(x, DType::float32, {2, 3})
      .constant(w, full({3, 4}, 0.5))
      .constant(b, full({4}, 0.25))
      .node("MatMul", {x, w}, {"product"})
      .node("Sub", {"product", b}, {"difference"})
      .output("difference");
}

std::vector<std::string> input_names(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Input& input : graph.inputs) {
    names.push_back(input.name);
  }
  return names;
}

TEST(OnnxNames, OfInputsAndWeightsStandInTheGraph) {
  ImportedModel model = layer("pixels", "fc.weight", "fc.bias").imported();
  for (const bool optimised : {false, true}) {
    const graph::Graph graph = graph_of(model, {full({2, 3}, 1)}, optimised);
    EXPECT_THAT(input_names(graph), UnorderedElementsAre("pixels", "fc.weight", "fc.bias"));
    const std::string text = graph::print(graph);
    EXPECT_THAT(text, AllOf(HasSubstr("argument \"pixels\""), HasSubstr("captured \"fc.weight\""),
                            HasSubstr("captured \"fc.bias\""), Not(HasSubstr("captured0"))));
  }
}

TEST(OnnxNames, OfArgumentsThatInitializersBecome) {
  ImportedModel model = layer("x", "w", "b").imported({.bound = {}, .arguments = {"w"}});
  EXPECT_THAT(input_names(graph_of(model, {full({2, 3}, 1), full({3, 4}, 1)})), UnorderedElementsAre("x", "w", "b"));
}

TEST(OnnxNames, OfWhatConstantsGiveAreItsValues) {
  // The transpose is computed once: what the graph closes over is a value that the file names too.
  ImportedModel model = Builder()
                            .input("x", DType::float32, {2, 3})
                            .constant("w", full({4, 3}, 0.5))
                            .node("Transpose", {"w"}, {"w.transposed"}, {})
                            .node("MatMul", {"x", "w.transposed"}, {"y"})
                            .output("y")
                            .imported();
  EXPECT_THAT(input_names(graph_of(model, {full({2, 3}, 1)})), UnorderedElementsAre("x", "w.transposed"));
}

TEST(OnnxNames, ComeIntoTheBodiesOfLoopsAndBranches) {
  const Builder then = Builder()
                           .constant("inner", full({2}, 3))
                           .node("Mul", {"x", "outer"}, {"a"})
                           .node("Add", {"a", "inner"}, {"t"})
                           .output("t");
  const Builder otherwise = Builder().node("Neg", {"x"}, {"e"}).output("e");
  ImportedModel model = Builder()
                            .input("x", DType::float32, {2})
                            .input("p", DType::boolean, {})
                            .constant("outer", full({2}, 2))
                            .node("If", {"p"}, {"y"}, {{"then_branch", then.body()}, {"else_branch", otherwise.body()}})
                            .output("y")
                            .imported();
  const graph::Graph graph = graph_of(model, {full({2}, 1), Tensor::from({true}, {})});
  EXPECT_THAT(input_names(graph), UnorderedElementsAre("x", "p", "outer", "inner"));
  const auto branch =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) { return node.is_control(); });
  ASSERT_NE(branch, graph.nodes.end());
  EXPECT_THAT(input_names(*branch->regions.at(0)), UnorderedElementsAre("x", "outer", "inner"));
}

TEST(OnnxNames, EqualOnesAreToldApart) {
  ImportedModel first = layer("x", "w", "b").imported();
  ImportedModel second = layer("x", "w", "b").imported();
  auto both = jit(
      [&](const Tensor& x, const Tensor& y) { return first.call(std::vector{x})[0] + second.call(std::vector{y})[0]; },
      {.pipeline = passes::PipelineOptions::none()});
  both(full({2, 3}, 1), full({2, 3}, 2));
  EXPECT_THAT(input_names(*both.compiled()->graph()), UnorderedElementsAre("x", "w", "b", "x #2", "w #2", "b #2"));
}

TEST(OnnxNames, AVariableKeepsItsOwn) {
  ImportedModel model = layer("x", "w", "b").imported({.bound = {}, .arguments = {"w"}});
  Variable weight(full({3, 4}, 1), "trained");
  auto step = jit([&](const Tensor& x) { return model.call(std::vector<Tensor>{x, weight})[0]; });
  step(full({2, 3}, 1));
  EXPECT_THAT(input_names(*step.compiled()->graph()), UnorderedElementsAre("x", "trained", "b"));
}

std::vector<std::string> hostile_names() {
  return {"<script>alert(1)</script>",
          "\"quoted\" } return %0",
          "line\nbreak\x1b[31m",
          "\xff\xfe broken",
          "right\u202eleft",
          "\xc2\x9b"
          "31m",
          "a|b,c;{d}",
          "]]>&amp;",
          "日本語",
          std::string(100'000, 'w'),
          std::string(50'000, 'w') + "tail"};
}

TEST(OnnxNames, HostileOnesComeBackFromTheTextAndAreShort) {
  for (const std::string& name : hostile_names()) {
    ImportedModel model = layer("x", name, "b").imported();
    const graph::Graph graph = graph_of(model, {full({2, 3}, 1)});
    const std::string text = graph::print(graph);
    EXPECT_LT(text.size(), 4000U);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    for (std::size_t start = 0; start < text.size();) {  // line by line: newlines are the text's own
      const std::size_t end = std::min(text.find('\n', start), text.size());
      const std::string line = text.substr(start, end - start);
      EXPECT_EQ(printable(line), line);
      start = end + 1;
    }
    const graph::Graph again = graph::parse(text);
    EXPECT_EQ(input_names(again), input_names(graph));
    EXPECT_EQ(graph::print(again), text);
    if (name.size() < 80) {
      EXPECT_THAT(input_names(graph), Contains(name)) << "to the byte";
    }
  }
}

TEST(OnnxNames, LongOnesKeepTheirEndsAndStayApart) {
  const std::string stem(1000, 'm');
  ImportedModel model = layer("x", stem + ".layer1.weight", stem + ".layer1.bias").imported();
  EXPECT_THAT(input_names(graph_of(model, {full({2, 3}, 1)})),
              UnorderedElementsAre("x", ::testing::EndsWith(".layer1.weight"), ::testing::EndsWith(".layer1.bias")));
  // Names that differ only in the middle are equal once cut.
  ImportedModel twins = layer("x", stem + "1" + stem, stem + "2" + stem).imported();
  const std::vector<std::string> names = input_names(graph_of(twins, {full({2, 3}, 1)}));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 3U);
}

TEST(OnnxNames, StandInPictures) {
  ImportedModel model = layer("pixels", "fc.weight", "<b>&\"fc.bias\"").imported();
  const reports::Diagram diagram = reports::graph_diagram(graph_of(model, {full({2, 3}, 1)}));
  const std::string svg = reports::render_svg(diagram);
  EXPECT_THAT(svg, AllOf(HasSubstr(">pixels<"), HasSubstr(">fc.weight<"),
                         HasSubstr(">&lt;b&gt;&amp;&quot;fc.bias&quot;<"), Not(HasSubstr("<b>"))));
  const std::string dot = reports::to_dot(diagram);
  EXPECT_THAT(dot, AllOf(HasSubstr("label=\"pixels\\nf32[2,3]\""), HasSubstr("label=\"fc.weight\\n"),
                         HasSubstr("<b>&amp;\\\"fc.bias\\\"")));
  for (const std::string& name : hostile_names()) {
    ImportedModel hostile = layer("x", name, "b").imported();
    const reports::Diagram picture = reports::graph_diagram(graph_of(hostile, {full({2, 3}, 1)}));
    EXPECT_THAT(reports::render_svg(picture), AllOf(Not(HasSubstr("<script")), Not(HasSubstr("\x1b"))));
    EXPECT_LT(reports::render_svg(picture).size(), 20'000U);
  }
}

TEST(OnnxNames, StandInMemoryTables) {
  ImportedModel model = layer("pixels", "fc.weight", "red\x1b[31m").imported();
  const std::vector<reports::GraphInput> inputs = reports::graph_inputs(graph_of(model, {full({2, 3}, 1)}));
  ASSERT_EQ(inputs.size(), 3U);
  EXPECT_EQ(inputs[0].name, "fc.weight") << "largest first";
  EXPECT_EQ(inputs[0].bytes, 3 * 4 * 4);
  EXPECT_THAT(inputs[0].readers, ElementsAre("matmul"));
  EXPECT_THAT(inputs[2].readers, ElementsAre("sub"));
  const std::string table = reports::render_inputs(inputs);
  EXPECT_THAT(table, AllOf(HasSubstr("fc.weight"), HasSubstr("48 B"), HasSubstr("matmul"), HasSubstr("red\\x1b[31m"),
                           Not(HasSubstr("\x1b"))));
  EXPECT_THAT(reports::render_inputs(inputs, {}, 1), AllOf(HasSubstr("fc.weight"), HasSubstr("and 2 more: 40 B")));
}

TEST(OnnxNames, StandInTraces) {
  ImportedModel model = layer("pixels", "fc.weight", "\xff<b>").imported();
  const graph::Graph graph = graph_of(model, {full({2, 3}, 1)});
  const auto reads = reports::reads_by_source_op(graph);
  EXPECT_THAT(reads.at(1), ElementsAre("pixels", "fc.weight"));
  EXPECT_THAT(reads.at(2), ElementsAre("\xff<b>"));
  profiler::Trace trace;
  trace.threads = {{1, "main", 0}};
  trace.labels = {{"matmul", trace::Category::op}, {"sub", trace::Category::op}};
  trace.zones = {{0, 0, 0, 10, 1}, {0, 1, 10, 30, 2}, {0, 1, 30, 40, 0}};
  std::ostringstream out;
  profiler::ChromeTraceOptions options;
  for (const auto& [source_op, names] : reads) {
    options.arguments[source_op].reads = names;
  }
  profiler::write_chrome_trace(trace, out, options);
  const nlohmann::json file = nlohmann::json::parse(out.str());
  std::vector<nlohmann::json> arguments;
  for (const nlohmann::json& event : file["traceEvents"]) {
    if (event["ph"] == "X") {
      arguments.push_back(event.value("args", nlohmann::json()));
    }
  }
  ASSERT_EQ(arguments.size(), 3U);
  EXPECT_EQ(arguments[0]["Reads"], nlohmann::json({"pixels", "fc.weight"}));
  EXPECT_EQ(arguments[1]["Reads"], nlohmann::json({"\ufffd<b>"}));
  EXPECT_TRUE(arguments[2].is_null());
  // Times go to what the op reads.
  const auto timed = reports::graph_inputs(graph, {{1, 2e-6}, {2, 1e-6}});
  EXPECT_EQ(timed[0].seconds, 2e-6);
  EXPECT_THAT(reports::render_inputs(timed), HasSubstr("2.00 us"));
  EXPECT_EQ(reports::to_json(timed)[0]["name"], "fc.weight");
}

}  // namespace
}  // namespace diptych::onnx
