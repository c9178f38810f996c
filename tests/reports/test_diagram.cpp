#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <pthread.h>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/diagrams/diagram.h"
#include "reports/diagrams/graph_diagram.h"
#include "reports/diagrams/layout.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::markup_problem;
using ::testing::Not;

// A chain with a skip connection, in two scopes.
Diagram sample() {
  Diagram d;
  d.title = "block";
  d.nodes = {{"x", {"x", "f32[2,3]"}, NodeClass::input, {}, "an input"},
             {"mm", {"matmul"}, NodeClass::matmul, {"block", "attention"}, "at model.cpp:12", Emphasis::added, 0.4},
             {"add", {"add"}, NodeClass::elementwise, {"block"}, "", Emphasis::removed},
             {"y", {"y"}, NodeClass::output}};
  d.edges = {
      {"x", "mm", "f32[2,3]"}, {"mm", "add", ""}, {"x", "add", ""}, {"add", "y", "f32[2,4]"}, {"add", "gone", ""}};
  return d;
}

bool overlap(const Box& a, const Box& b) {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

void expect_sound(const Layout& layout, bool down = true) {
  for (std::size_t i = 0; i < layout.nodes.size(); ++i) {
    const Box& a = layout.nodes[i];
    EXPECT_GE(a.x, -1);
    EXPECT_GE(a.y, -1);
    EXPECT_LE(a.x + a.width, layout.width + 1);
    EXPECT_LE(a.y + a.height, layout.height + 1);
    for (std::size_t j = i + 1; j < layout.nodes.size(); ++j) {
      EXPECT_FALSE(overlap(a, layout.nodes[j])) << i << " and " << j;
    }
  }
  for (const PlacedEdge& edge : layout.edges) {
    ASSERT_GE(edge.curve.size(), 4u);
    EXPECT_EQ(edge.curve.size() % 3, 1u);
    const Box& from = layout.nodes[edge.from];
    const Box& to = layout.nodes[edge.to];
    EXPECT_LT(down ? from.y : from.x, down ? to.y : to.x);
    EXPECT_NEAR(edge.curve.back().x, to.x + to.width / 2, to.width / 2 + 2);
    EXPECT_NEAR(edge.curve.back().y, to.y + to.height / 2, to.height / 2 + 2);
  }
}

std::optional<Layout> laid_out(const Diagram& diagram) {
  const std::vector<Prepared> prepared = {prepare(diagram)};
  return graphviz_layouts(prepared, 5).front();
}

TEST(Diagram, GraphvizPlacesNodesEdgesAndScopes) {
  for (const Direction direction : {Direction::top_down, Direction::left_right}) {
    Diagram d = sample();
    d.direction = direction;
    const auto layout = laid_out(d);
    ASSERT_TRUE(layout);
    expect_sound(*layout, direction == Direction::top_down);
    ASSERT_EQ(layout->clusters.size(), 2u);
    EXPECT_EQ(layout->clusters[1].path, (std::vector<std::string>{"block", "attention"}));
    const Box& inner = layout->clusters[1].box;
    const Box& node = layout->nodes[1];
    EXPECT_TRUE(inner.x <= node.x && node.x + node.width <= inner.x + inner.width + 1);
  }
}

TEST(Diagram, PlainLayoutIsSound) {
  for (const Direction direction : {Direction::top_down, Direction::left_right}) {
    Diagram d = sample();
    d.direction = direction;
    expect_sound(plain_layout(prepare(d)), direction == Direction::top_down);
  }
}

TEST(Diagram, PlainLayoutSurvivesCyclesAndLoops) {
  Diagram d;
  d.nodes = {{"a", {"a"}}, {"b", {"b"}}, {"c", {"c"}}};
  d.edges = {{"a", "b", ""}, {"b", "c", ""}, {"c", "a", ""}, {"b", "b", ""}};
  EXPECT_EQ(plain_layout(prepare(d)).nodes.size(), 3u);
  EXPECT_EQ(markup_problem(render_svg(d)), "");
}

TEST(Diagram, IsWellFormedAndComplete) {
  const std::string svg = render_svg(sample(), {"p1"});
  EXPECT_EQ(markup_problem(svg), "");
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_THAT(svg, AllOf(HasSubstr(">matmul<"), HasSubstr("<title>at model.cpp:12, added</title>"),
                         HasSubstr("dg-removed"), HasSubstr("id=\"p1-n0\""), HasSubstr("f32[2,4]"), HasSubstr("40 %")));
  EXPECT_THAT(svg, Not(HasSubstr("plain layout")));
}

TEST(Diagram, OfNothing) {
  EXPECT_EQ(markup_problem(render_svg({})), "");
  EXPECT_EQ(markup_problem(render_svg({}, {"d", 0, 0})), "");
}

TEST(Diagram, FallsBackWhenGraphvizMayNotRun) {
  const std::string svg = render_svg(sample(), {"d", 300, 0});
  EXPECT_THAT(svg, HasSubstr("Graphviz did not finish"));
  EXPECT_EQ(markup_problem(svg), "");
}

Diagram tangle(std::size_t nodes, std::size_t edges) {
  Diagram d;
  std::uint64_t state = 1;
  const auto next = [&state](std::size_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::size_t>(state >> 33) % bound;
  };
  for (std::size_t i = 0; i < nodes; ++i) {
    d.nodes.push_back({std::to_string(i), {"op " + std::to_string(i)}});
  }
  for (std::size_t i = 0; i < edges; ++i) {
    const std::size_t a = next(nodes - 1);
    d.edges.push_back({std::to_string(a), std::to_string(a + 1 + next(nodes - a - 1)), ""});
  }
  return d;
}

TEST(Diagram, StopsGraphvizThatTakesTooLong) {
  // Long random edges: minutes of work for Graphviz with its defaults.
  const auto start = std::chrono::steady_clock::now();
  const std::string svg = render_svg(tangle(290, 2500), {"d", 300, 1});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(6));
  EXPECT_THAT(svg, HasSubstr("Graphviz did not finish"));
  EXPECT_EQ(markup_problem(svg), "");
}

TEST(Diagram, OneThatTakesTooLongCostsNoOther) {
  const Diagram slow = tangle(290, 2500);
  std::vector<std::size_t> done;
  const std::vector<std::string> pictures =
      bare_svgs({sample(), slow, sample(), slow, sample()}, 1, [&](std::size_t count) { done.push_back(count); });
  ASSERT_EQ(pictures.size(), 5U);
  const std::string alone = bare_svgs({sample()}, 5).front();
  for (const std::size_t i : {0, 2, 4}) {
    EXPECT_EQ(pictures[i], alone);
  }
  EXPECT_EQ(pictures[1], bare_svgs({slow}, 0).front()) << "laid out plainly";
  EXPECT_EQ(pictures[1], pictures[3]);
  EXPECT_THAT(done, ::testing::ElementsAre(1, 3, 5));
}

// Each start of a process copies the page tables of all that the program has in memory: with one for each picture, a
// page takes time by the square of what it shows.
TEST(Diagram, ManyPicturesShareAProcess) {
  static int processes = 0;
  ASSERT_EQ(::pthread_atfork(
                nullptr, [] { ++processes; }, nullptr),
            0);
  const std::vector<std::string> pictures = bare_svgs(std::vector<Diagram>(300, sample()), 5);
  EXPECT_EQ(pictures.front(), pictures.back());
  EXPECT_LE(processes, 2);
}

TEST(Diagram, DrawsThousandsOfNodesPlainly) {
  const std::string svg = render_svg(tangle(3000, 6000));
  EXPECT_THAT(svg, HasSubstr("3000 nodes are more than 300"));
  EXPECT_EQ(markup_problem(svg), "");
}

TEST(Diagram, HostileTextStaysText) {
  const std::vector<std::string> hostile = {"\"quoted\" \\N \\G",
                                            "<script>alert(1)</script>",
                                            std::string("nul\0nul", 7),
                                            "]]>&amp;<!--",
                                            "\x1b[31m\xff\xfe",
                                            std::string(20000, 'x'),
                                            "{a|b}",
                                            "日本語",
                                            ""};
  Diagram d;
  d.title = hostile[1];
  for (const std::string& text : hostile) {
    d.nodes.push_back({text, {text, text}, NodeClass::other, {text, "inner"}, text});
    d.nodes.back().chips = {text, text};
    d.edges.push_back({hostile[0], text, text});
  }
  for (const int seconds : {5, 0}) {
    const std::string svg = render_svg(d, {"x\" onload=\"y", 300, seconds});
    EXPECT_EQ(markup_problem(svg), "");
    EXPECT_THAT(svg, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("onload="))));
    EXPECT_LT(svg.size(), 100'000u);
  }
  const std::string dot = to_dot(d);
  EXPECT_EQ(testing::text_problem(dot), "");
  EXPECT_LT(dot.size(), 20'000u);
}

/// The rectangles of a class.
std::vector<Box> rects_of(const std::string& svg, const std::string& css) {
  std::vector<Box> rects;
  for (std::size_t at = svg.find("<rect "); at != std::string::npos; at = svg.find("<rect ", at + 1)) {
    const std::string tag = svg.substr(at, svg.find('>', at) - at);
    Box box;
    if (tag.find("class=\"" + css + "\"") != std::string::npos &&
        std::sscanf(tag.c_str(), R"(<rect x="%lf" y="%lf" width="%lf" height="%lf")", &box.x, &box.y, &box.width,
                    &box.height) == 4) {
      rects.push_back(box);
    }
  }
  return rects;
}

TEST(Diagram, ChipsStandInTheirBoxBelowTheLabel) {
  Diagram d = sample();
  d.nodes[1].chips = {"weight f32[3,4]", "a long name that makes the box wider"};
  const Prepared with = prepare(d);
  const Prepared without = prepare(sample());
  const Box& taller = with.layout.nodes[1];
  EXPECT_GE(taller.height, without.layout.nodes[1].height + 2 * chip_height);
  EXPECT_GT(taller.width, without.layout.nodes[1].width);
  EXPECT_EQ(with.layout.nodes[2].height, without.layout.nodes[2].height);
  const std::string svg = bare_svgs({d}, 5).front();
  EXPECT_EQ(markup_problem(svg), "");
  const std::vector<Box> boxes = rects_of(svg, "dg-box");
  const std::vector<Box> chips = rects_of(svg, "dg-chip-box");
  ASSERT_EQ(boxes.size(), 4U);
  ASSERT_EQ(chips.size(), 2U);
  const Box& box = boxes[1];
  for (const Box& chip : chips) {
    EXPECT_GT(chip.x, box.x);
    EXPECT_LT(chip.x + chip.width, box.x + box.width);
    EXPECT_GE(chip.y, box.y + 7 + line_height);
    EXPECT_LE(chip.y + chip.height, box.y + box.height);
  }
  EXPECT_FALSE(overlap(chips[0], chips[1]));
  EXPECT_LT(svg.find("matmul"), svg.find("</g>", svg.find("matmul")));
  EXPECT_LT(svg.find("</g>", svg.find("matmul")), svg.find("dg-chip")) << "beside the box's group";
}

TEST(Diagram, HeatThatIsNoNumberIsDrawnAsZero) {
  Diagram d = sample();
  d.nodes[1].heat = std::nan("");
  d.nodes[0].heat = 7;
  EXPECT_EQ(markup_problem(render_svg(d)), "");
}

TEST(Dot, QuotesAndNests) {
  const std::string dot = to_dot(sample());
  EXPECT_THAT(
      dot, AllOf(HasSubstr("digraph diptych {"), HasSubstr("label=\"x\\nf32[2,3]\""), HasSubstr("subgraph cluster_1"),
                 HasSubstr("n0 -> n1 [label=\"f32[2,3]\"]"), Not(HasSubstr("gone"))));
  Diagram d;
  d.nodes = {{"a", {"say \"hi\" \\"}}};
  EXPECT_THAT(to_dot(d), HasSubstr("label=\"say \\\"hi\\\" \\\\\""));
}

// Advances of DejaVu Sans Bold, the widest that a viewer is likely to have, in em: from the font's own table.
TEST(Diagram, LabelsFitTheirBoxesInTheWidestFont) {
  const std::vector<std::pair<char, double>> advances = {{'W', 1.103}, {'m', 1.042}, {'%', 1.002}, {'M', 0.995},
                                                         {'=', 0.838}, {'w', 0.924}, {'0', 0.696}, {'e', 0.678},
                                                         {'i', 0.343}, {'.', 0.380}, {'_', 0.500}, {'[', 0.457}};
  Diagram d;
  for (const auto& [character, advance] : advances) {
    d.nodes.push_back({{character},
                       {std::string(30, character), std::string(36, character)},
                       NodeClass::other,
                       {},
                       "",
                       Emphasis::added});
  }
  const Prepared prepared = prepare(d);
  for (std::size_t i = 0; i < advances.size(); ++i) {
    const double sign = 20;  // the plus has a corner of its own
    EXPECT_LE(30 * advances[i].second * 12 + sign, prepared.layout.nodes[i].width) << advances[i].first;
    EXPECT_LE(36 * advances[i].second * 11 + sign, prepared.layout.nodes[i].width) << advances[i].first;
  }
}

TEST(Diagram, NamesOfScopesFitTheirClusters) {
  Diagram d;
  d.nodes = {{"a", {"a"}, NodeClass::other, {"WWWWWWWWWWWWWWWWWWWWWWWWWWWWWW"}}};
  const auto layout = laid_out(d);
  ASSERT_TRUE(layout);
  EXPECT_GE(layout->clusters.at(0).box.width, 10 + 30 * 0.989 * 11) << "in DejaVu Sans, from the cluster's left edge";
}

TEST(Diagram, TooltipsHaveLines) {
  Diagram d;
  d.nodes = {{"a", {"a"}, NodeClass::other, {}, "first\nsecond <b>\x1b"}};
  const std::string svg = render_svg(d);
  EXPECT_THAT(svg, HasSubstr("<title>first\nsecond &lt;b&gt;\\x1b</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("\\x0a")));
  EXPECT_THAT(to_dot(d), HasSubstr("tooltip=\"first\\nsecond <b>\\\\x1b\""));
}

TEST(Diagram, TheLegendNamesEverySign) {
  Diagram plain;
  plain.nodes = {{"a", {"a"}, NodeClass::matmul}};
  EXPECT_THAT(render_svg(plain),
              AllOf(HasSubstr(">matmul<"), Not(HasSubstr("since the stage before")), Not(HasSubstr("%9"))));
  Diagram d = sample();
  d.nodes[3].emphasis = Emphasis::fused;
  d.numbers = true;
  const std::string svg = render_svg(d);
  EXPECT_EQ(markup_problem(svg), "");
  EXPECT_THAT(
      svg, AllOf(HasSubstr(">+</text>"), HasSubstr(">new or changed since the stage before<"), HasSubstr(">−</text>"),
                 HasSubstr(">gone since the stage before<"), HasSubstr(">stands for other source ops than before<"),
                 HasSubstr(">%9 =</text>"), HasSubstr(">the value that nodes further away read as %9<")));
  d.legend = false;
  EXPECT_THAT(render_svg(d), AllOf(Not(HasSubstr("%9 =")), Not(HasSubstr("since the stage"))));
}

TEST(NodeClass, IsFoundByName) {
  EXPECT_EQ(node_class_from("matmul"), NodeClass::matmul);
  EXPECT_EQ(node_class_from("other"), NodeClass::other);
  EXPECT_EQ(node_class_from("<script>"), NodeClass::other);
}

TEST(GraphDiagram, RegionsAreClusters) {
  const graph::Graph graph = graph::parse(
      "graph \"g\"(%0: bool[] argument \"p\", %1: f32[2] argument \"x\") {\n"
      "  %2: f32[2], %3: f32[] = cond(%0, %1) [\n"
      "    graph \"then\"(%0: f32[2] argument \"x\") {\n"
      "      %1: f32[] = sum(%0) {axes=[0], keepdims=false}\n"
      "      return %0, %1\n"
      "    },\n"
      "    graph \"else\"(%0: f32[2] argument \"x\") {\n"
      "      %1: f32[] = max(%0) {axes=[0], keepdims=false}\n"
      "      return %0, %1\n"
      "    }\n"
      "  ]\n"
      "  %4: f32[2] = mul(%2, %3)\n"
      "  return %4\n}");
  const Diagram diagram = graph_diagram(graph, nullptr);
  const auto titled = [&](const std::string& title) {
    const auto found = std::find_if(diagram.nodes.begin(), diagram.nodes.end(),
                                    [&](const DiagramNode& node) { return node.label[0] == title; });
    EXPECT_NE(found, diagram.nodes.end()) << title;
    return *found;
  };
  EXPECT_EQ(titled("sum").scope, std::vector<std::string>{"then %2"});
  EXPECT_EQ(titled("max").scope, std::vector<std::string>{"else %2"});
  EXPECT_EQ(titled("cond").node_class, NodeClass::control);
  std::size_t into_mul = 0;
  for (const DiagramEdge& edge : diagram.edges) {
    into_mul += edge.from == titled("cond").id && edge.to == titled("mul").id ? 1 : 0;
  }
  EXPECT_EQ(into_mul, 2U) << "both outputs are the node's";
  const std::string svg = render_svg(diagram);
  EXPECT_EQ(markup_problem(svg), "");
  EXPECT_THAT(svg, AllOf(HasSubstr("then"), HasSubstr("else")));
  EXPECT_EQ(graph_diagram(graph, &graph).nodes.size(), diagram.nodes.size());
}

TEST(GraphDiagram, TooltipsCountSourceOpsAndNameInputsInFull) {
  const std::string name = "encoder.layers.0.self_attention.projection.weight";
  std::string text = "graph \"g\"(%0: f32[2] captured \"" + name + "\") {\n";
  for (int i = 1; i <= 4; ++i) {  // more readers than get an edge
    text += fmt::format("  %{}: f32[2] = add(%{}, %0) @ [{}] \"\" \"model.cpp\" 7\n", i, i - 1,
                        i == 2 ? "1,2" : std::to_string(i));
  }
  const Diagram diagram = graph_diagram(graph::parse(text + "  return %4\n}"));
  ASSERT_EQ(diagram.nodes.size(), 5U);
  EXPECT_THAT(diagram.nodes[0].tooltip,
              AllOf(HasSubstr("\n1 source op, at model.cpp:7"), HasSubstr("captured \"" + name + "\"")));
  EXPECT_THAT(diagram.nodes[1].tooltip, HasSubstr("\n2 source ops, first at model.cpp:7"));
  EXPECT_THAT(diagram.nodes[1].label[0], AllOf(HasSubstr("encod"), HasSubstr("weight"), Not(HasSubstr(name))));
}

TEST(GraphDiagram, SaysWhereItNumbersValues) {
  std::string text = "graph \"g\"(%0: f32[2] argument \"x\") {\n";
  for (int i = 1; i <= 20; ++i) {
    text += fmt::format("  %{}: f32[2] = neg(%{})\n", i, i - 1);
  }
  const std::string far = text + "  %21: f32[2] = add(%20, %1)\n  return %21\n}";
  EXPECT_TRUE(graph_diagram(graph::parse(far)).numbers);
  EXPECT_THAT(render_svg(graph_diagram(graph::parse(far))), AllOf(HasSubstr("%1 = neg"), HasSubstr(">%9 =</text>")));
  EXPECT_FALSE(graph_diagram(graph::parse(text + "  return %20\n}")).numbers);
}

}  // namespace
}  // namespace diptych::reports
