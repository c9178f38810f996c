#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/explorer/explorer.h"
#include "reports/explorer/outline.h"
#include "reports/explorer/places.h"
#include "tests/reports/well_formed.h"
#include "tests/support/short_run.h"

namespace diptych::reports {
namespace {

using graph::Graph;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::markup_problem;
using ::testing::Not;

/// `blocks` residual blocks under the names of `scope`, each of three ops; the op of block `odd` is another one.
Graph tower(int blocks, const std::function<std::string(int)>& scope, int odd = -1) {
  std::string text = "graph \"tower\"(%0: f32[4] argument \"x\"";
  for (int i = 0; i < blocks; ++i) {
    text += fmt::format(", %{}: f32[4] state \"{}.weight\"", 3 * blocks + 1 + i, scope(i));
  }
  text += ") {\n";
  for (int i = 0; i < blocks; ++i) {
    const int v = 3 * i;
    text += fmt::format("  %{}: f32[4] = mul(%{}, %{}) @ [{}] {} \"model.cpp\" 3\n", v + 1, v, 3 * blocks + 1 + i, v,
                        quote(scope(i) + ".scale"));
    text += fmt::format("  %{}: f32[4] = {}(%{}) @ [{}] {} \"model.cpp\" 4\n", v + 2, i == odd ? "exp" : "tanh", v + 1,
                        v + 1, quote(scope(i)));
    text += fmt::format("  %{}: f32[4] = add(%{}, %{}) @ [{}] {} \"model.cpp\" 5\n", v + 3, v + 2, v, v + 2,
                        quote(scope(i)));
  }
  return graph::parse(text + fmt::format("  return %{}\n}}", 3 * blocks));
}

std::vector<GraphPart> only_lane(const Graph& graph) {
  const std::vector<LaneOutline> lanes = outline_of(graph, Places(graph));
  EXPECT_EQ(lanes.size(), 1U);
  return lanes.front().parts;
}

ExplorerInput input_of(const std::vector<const Graph*>& graphs) {
  ExplorerInput input{"program", {}, {}};
  for (const Graph* graph : graphs) {
    input.stages.push_back({fmt::format("pass {}", input.stages.size()), graph, true, 1e-3});
  }
  return input;
}

std::vector<std::size_t> box_counts(const ExplorerData& data) {
  std::vector<std::size_t> counts;
  for (const json& level : data.json["levels"]) {
    counts.push_back(level["boxes"].size());
  }
  return counts;
}

TEST(Outline, FindsRepeatedBlocksByStructureAndNotByName) {
  const auto names = [](int i) { return std::string(i % 2 == 0 ? "even" : "odd") + std::string(1, char('a' + i)); };
  const std::vector<GraphPart> parts = only_lane(tower(12, names));
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].kind, GraphPart::Kind::repeat);
  ASSERT_EQ(parts[0].parts.size(), 12U);
  EXPECT_EQ(parts[0].parts[11].name, "oddl");
  EXPECT_EQ(nodes_of(parts[0]).size(), 36U);
}

TEST(Outline, KeepsABlockOfAnotherStructureApart) {
  const auto names = [](int i) { return fmt::format("blocks.{}", i); };
  const std::vector<GraphPart> outer = only_lane(tower(9, names, 4));
  ASSERT_EQ(outer.size(), 1U) << "the module `blocks`";
  std::vector<std::size_t> sizes;
  for (const GraphPart& part : outer[0].parts) {
    sizes.push_back(part.kind == GraphPart::Kind::repeat ? part.parts.size() : 1);
  }
  EXPECT_THAT(sizes, ElementsAre(4, 1, 4));
}

TEST(Outline, BlocksThatReadFromElsewhereAreNoRepeat) {
  // The third reads what the first makes, not the second.
  const Graph graph = graph::parse(R"(graph "g"(%0: f32[4] argument "x") {
  %1: f32[4] = tanh(%0) @ [0] "a" "m.cpp" 1
  %2: f32[4] = exp(%1) @ [1] "a" "m.cpp" 1
  %3: f32[4] = tanh(%2) @ [2] "b" "m.cpp" 1
  %4: f32[4] = exp(%3) @ [3] "b" "m.cpp" 1
  %5: f32[4] = tanh(%2) @ [4] "c" "m.cpp" 1
  %6: f32[4] = exp(%5) @ [5] "c" "m.cpp" 1
  return %4, %6
})");
  const std::vector<GraphPart> parts = only_lane(graph);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].parts.size(), 2U);
  EXPECT_EQ(parts[1].name, "c");
}

TEST(Outline, NoListIsLongerThanAPictureHoldsAndNothingIsLost) {
  std::string text = "graph \"g\"(%0: f32[4] argument \"x\") {\n";
  constexpr int count = 2000;
  for (int i = 0; i < count; ++i) {  // without a period
    text +=
        fmt::format("  %{}: f32[4] = {}(%{}) @ [{}] \"\" \"m.cpp\" 1\n", i + 1, (i * i) % 7 < 3 ? "tanh" : "exp", i, i);
  }
  const Graph graph = graph::parse(text + fmt::format("  return %{}\n}}", count));
  std::set<std::size_t> nodes;
  for (const GraphPart& part : only_lane(graph)) {
    const std::vector<std::size_t> more = nodes_of(part);
    nodes.insert(more.begin(), more.end());
  }
  EXPECT_EQ(nodes.size(), static_cast<std::size_t>(count));
  const ExplorerData data = explorer_data(input_of({&graph}));
  for (const std::size_t boxes : box_counts(data)) {
    EXPECT_LE(boxes, 40U);
  }
}

TEST(Places, TrainingStepsHaveLanesAndGradientsTheScopeOfTheirOp) {
  const Graph graph =
      graph::parse(R"(graph "g"(%0: f32[4] argument "x", %1: f32[4] state "net.weight", %2: f32[4] state "m") {
  %3: f32[4] = mul(%0, %1) @ [0] "net" "model.cpp" 1
  %4: f32[4] = tanh(%3) @ [1] "act" "model.cpp" 2
  %5: f32[4] = square(%4) @ [2] "" "framework/ops/unary.cpp" 7
  %6: f32[4] = mul(%5, %0) @ [3] "" "framework/ops/binary.cpp" 7
  %7: f32[4] = neg(%6) @ [4] "" "framework/optim/sgd.cpp" 7
  %8: f32[4] = add(%1, %7) @ [5] "" "framework/optim/sgd.cpp" 8
  update %1 <- %8
  return %4
})");
  const Places places(graph);
  std::vector<std::string> found;
  for (const graph::Node& node : graph.nodes) {
    const Place place = places.of(node.provenance);
    found.push_back(fmt::format("{} {}", name_of(place.lane), place.scope));
  }
  EXPECT_THAT(found, ElementsAre("forward net", "forward act", "backward act", "backward net", "optimizer net",
                                 "optimizer net"));
}

/// How many values each box that comes in or goes out stands for.
std::vector<std::size_t> ends_of(const json& level, const char* direction) {
  std::vector<std::size_t> counts;
  for (const json& box : level["boxes"]) {
    if (box.contains(direction)) {
      counts.push_back(box[direction].size());
    }
  }
  return counts;
}

TEST(Explorer, WhatComesIntoALaneIsOneBox) {
  const char* forward = R"(graph "g"(%0: f32[4] argument "x", %1: f32[4] argument "y", %2: f32[4] state "net.weight") {
  %3: f32[4] = mul(%0, %2) @ [0] "net" "model.cpp" 1
  %4: f32[4] = sub(%3, %1) @ [1] "loss" "model.cpp" 2
)";
  const Graph inference = graph::parse(std::string(forward) + "  return %4\n}");
  const Graph training =
      graph::parse(std::string(forward) + R"(  %5: f32[4] = mul(%4, %2) @ [2] "" "framework/ops/binary.cpp" 7
  %6: f32[4] = neg(%5) @ [3] "" "framework/optim/sgd.cpp" 7
  %7: f32[4] = add(%2, %6) @ [4] "" "framework/optim/sgd.cpp" 8
  update %2 <- %7
  return %4
})");
  const auto top = [](const ExplorerData& data) {
    return data.json["levels"][data.json["stages"][0]["level"].get<std::size_t>()];
  };
  const ExplorerData apart = explorer_data(input_of({&inference}));
  EXPECT_THAT(ends_of(top(apart), "in"), ElementsAre(1, 1));
  const ExplorerData lanes = explorer_data(input_of({&training}));
  EXPECT_THAT(ends_of(top(lanes), "in"), ElementsAre(2)) << "columns stay as narrow as their boxes";
  EXPECT_THAT(lanes.pictures[top(lanes)["picture"].get<std::size_t>()], HasSubstr(">in: 2 values<"));
}

/// The source ops of each node of a level and of what opens from it.
void gather_sources(const json& data, int level, std::multiset<int>& sources) {
  for (const json& box : data["levels"][static_cast<std::size_t>(level)]["boxes"]) {
    if (box.contains("node")) {
      for (const json& source : data["nodes"][box["node"].get<std::size_t>()][6]) {
        sources.insert(source.get<int>());
      }
    }
    for (const json& inner : box.value("levels", json::array())) {
      gather_sources(data, inner.get<int>(), sources);
    }
  }
}

TEST(Explorer, RegionsOfAnUpdateOfManyTensorsReadTheirOwn) {
  const Graph graph = graph::parse(R"(graph "g"(%0: f32[4] argument "x", %1: f32[8] argument "y") {
  %2: f32[4], %3: f32[8] = fused(%0, %1) [
    graph "fused"(%0: f32[4] argument "%0") {
      %1: f32[4] = exp(%0)  @ [0] "" "m.cpp" 1
      return %1
    },
    graph "fused"(%0: f32[8] argument "%1") {
      %1: f32[8] = exp(%0)  @ [1] "" "m.cpp" 1
      return %1
    }
  ]  @ [0,1] "" "m.cpp" 1
  return %2, %3
})");
  const ExplorerData data = explorer_data(input_of({&graph}));
  std::vector<json> reads;
  std::string names;
  for (const json& node : data.json["nodes"]) {
    const std::string name = data.json["strings"][node[0].get<std::size_t>()];
    names += name + "; ";
    if (name == "exp") {
      reads.push_back(node[7]);
    }
  }
  EXPECT_THAT(reads, ::testing::UnorderedElementsAre(json{0}, json{1})) << "numbers outside";
  EXPECT_THAT(names, HasSubstr("fused: exp for 2 tensors"));
  EXPECT_EQ(data.json["levels"].size(), 3U) << "each region opens";
}

TEST(Explorer, StagesJoinBySourceOpAndShareWhatIsEqual) {
  const auto names = [](int i) { return fmt::format("blocks.{}", i); };
  const Graph captured = tower(4, names);
  Graph after = captured;
  after.nodes[1].provenance.source_ops = {1, 4};  // one node stands for two
  const ExplorerData data = explorer_data(input_of({&captured, &after, &after}));
  const json& stages = data.json["stages"];
  ASSERT_EQ(stages.size(), 4U);
  EXPECT_EQ(data.json["strings"][stages[0]["name"].get<std::size_t>()], "eager");
  EXPECT_EQ(stages[0]["level"], stages[1]["level"]) << "eager runs what is captured, and shares its pictures";
  EXPECT_EQ(stages[2]["level"], stages[3]["level"]);
  EXPECT_EQ(data.json["nodes"].size(), 12U + 1U) << "only the changed node is there twice";
  std::multiset<int> first;
  std::multiset<int> second;
  gather_sources(data.json, stages[1]["level"], first);
  gather_sources(data.json, stages[2]["level"], second);
  EXPECT_EQ(first.size(), 12U);
  EXPECT_EQ(first.count(4), 1U);
  EXPECT_EQ(second.count(4), 2U);
  EXPECT_LT(data.pictures.size(), data.json["levels"].size()) << "equal blocks share their pictures";
}

TEST(Explorer, HasTimesBySourceOpAndBytesByNode) {
  const Graph graph = graph::parse(R"(graph "g"(%0: f32[2,3] argument "x") {
  %1: f32[6] = reshape(%0) {shape=[6]}  @ [0] "" "m.cpp" 1
  %2: f32[6] = exp(%1)  @ [1] "" "m.cpp" 2
  return %2
})");
  ExplorerInput input = input_of({&graph});
  input.times = {{"eager", "<b>"},
                 {1e-3, 5e-4},
                 {{2, {{.seconds = 8e-4, .limit_seconds = 2e-4}, {.seconds = 3e-4, .is_estimate = true}}}}};
  const json data = explorer_data(input).json;
  EXPECT_EQ(data["times"]["arms"][1], (json{{"name", "<b>"}, {"seconds", 5e-4}}));
  EXPECT_EQ(data["times"]["ops"], (json{{"1", {{8e-4, 0, 2e-4}, {3e-4, 1}}}})) << "exp, as its node numbers it";
  EXPECT_EQ(data["nodes"][0][9], 0) << "strides";
  EXPECT_EQ(data["nodes"][1][9], 48) << "six elements of four bytes, in and out";
  EXPECT_TRUE(explorer_data(input_of({&graph})).json["times"]["arms"].empty());
}

TEST(Explorer, SaysWhatACallTakesThatHasNoBox) {
  const Graph graph = graph::parse(R"(graph "g"(%0: f32[6] argument "x") {
  %1: f32[] = full() {shape=[], dtype=f32, value=0.5}  @ [0] "" "m.cpp" 1
  %2: f32[6] = mul(%0, %1)  @ [1] "" "m.cpp" 2
  return %2
})");
  ExplorerInput input = input_of({&graph});
  input.times = {{"eager", "graph"},
                 {1e-3, 5e-4},
                 {{1, {{.seconds = 3e-6}, {}}}, {2, {{.seconds = 8e-4}, {.seconds = 3e-4}}}},
                 {{"(tape)", AlignedRow::Kind::tape, 0, {{.seconds = 1e-5}, {}}},
                  {"<i>", AlignedRow::Kind::ops, 0, {{}, {.seconds = 2e-6}}}}};
  const json rest = explorer_data(input).json["times"]["rest"];
  EXPECT_EQ(rest,
            (json::array({{"(tape)", {1e-5, nullptr}}, {"<i>", {nullptr, 2e-6}}, {"constants", {3e-6, nullptr}}})))
      << "what constants take, too: they are written into mul";
}

/// Of a level: {box: [text of each chip]}.
std::map<int, std::vector<std::string>> chips_of(const ExplorerData& data, const json& level) {
  std::map<int, std::vector<std::string>> texts;
  if (!level.contains("parameters")) {
    return texts;
  }
  const std::string& svg = data.pictures[level["parameters"]["picture"].get<std::size_t>()];
  std::size_t at = 0;
  for (const json& chip : level["parameters"]["chips"]) {
    at = svg.find(R"(class="dg-chip")", at + 1);
    const std::size_t text = svg.find('>', svg.find("<text", at)) + 1;
    texts[chip[0]].push_back(svg.substr(text, svg.find('<', text) - text));
  }
  EXPECT_EQ(svg.find(R"(class="dg-chip")", at + 1), std::string::npos) << "a chip without values";
  return texts;
}

TEST(Explorer, ParametersAreChipsOfTheBoxesThatReadThem) {
  const Graph graph = tower(12, [](int i) { return fmt::format("blocks.{}", i); });
  const ExplorerData data = explorer_data(input_of({&graph}));
  const json& levels = data.json["levels"];
  const json& top = levels[data.json["stages"][0]["level"].get<std::size_t>()];
  const std::map<int, std::vector<std::string>> whole = chips_of(data, top);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_THAT(whole.begin()->second, ElementsAre("12 parameters, 192 B"));
  EXPECT_EQ(top["parameters"]["chips"][0][1].size(), 12U);
  std::set<int> pictures;
  std::set<json> values;
  for (const json& inner : top["boxes"][static_cast<std::size_t>(whole.begin()->first)]["levels"]) {
    const json& block = levels[inner.get<std::size_t>()];
    const std::map<int, std::vector<std::string>> chips = chips_of(data, block);
    ASSERT_EQ(chips.size(), 1U);
    EXPECT_THAT(chips.begin()->second, ElementsAre("weight f32[4]")) << "without the block's name";
    pictures.insert(block["parameters"]["picture"].get<int>());
    values.insert(block["parameters"]["chips"][0][1]);
  }
  EXPECT_EQ(pictures.size(), 1U) << "equal blocks share the picture with parameters";
  EXPECT_EQ(values.size(), 12U) << "and have their own";
  const json& weight = data.json["values"][0][std::to_string((*values.begin())[0].get<int>())];
  EXPECT_EQ(weight[0], 1) << "a state";
  EXPECT_EQ(data.json["strings"][weight[1].get<std::size_t>()], "blocks.0.weight");
  EXPECT_EQ(data.json["strings"][weight[2].get<std::size_t>()], "f32[4]");
  EXPECT_EQ(weight[3], 16);
}

TEST(Explorer, ConstantsThatNoTitleHasAreChipsToo) {
  const Graph graph = graph::parse(R"(graph "g"(%0: f32[3] argument "x") {
  const %1: f32[3] = {1, 2, 3}
  const %2: f32[] = {0.5}
  %3: f32[3] = mul(%0, %1)  @ [0] "" "m.cpp" 1
  %4: f32[3] = add(%3, %2)  @ [1] "" "m.cpp" 2
  return %4
})");
  const ExplorerData data = explorer_data(input_of({&graph}));
  const json& top = data.json["levels"][data.json["stages"][0]["level"].get<std::size_t>()];
  EXPECT_THAT(chips_of(data, top), ElementsAre(::testing::Pair(1, ElementsAre("const f32[3]"))));
  EXPECT_EQ(data.json["nodes"][0][7], json::array({0, 1})) << "its users are found by its number";
  EXPECT_EQ(data.json["nodes"][1][7], json::array({3, "0.5"}));
  EXPECT_EQ(data.json["values"][0]["1"][0], 3);
  EXPECT_FALSE(data.json["values"][0].contains("2"));
}

TEST(Explorer, FusedKernelsOpenAndNumberTheirInnerValuesApart) {
  const Graph graph = graph::parse(R"(graph "g"(%0: f32[4] argument "x") {
  %1: f32[4] = fused(%0) [
    graph "fused"(
        %0: f32[4] argument "%0") {
      %1: f32[4] = exp(%0)  @ [0] "" "m.cpp" 1
      %2: f32[4] = tanh(%1)  @ [1] "" "m.cpp" 2
      return %2
    }
  ]  @ [0,1] "" "m.cpp" 1
  return %1
})");
  const ExplorerData data = explorer_data(input_of({&graph}));
  const json& top = data.json["levels"][data.json["stages"][0]["level"].get<std::size_t>()];
  const json& kernel = top["boxes"][1];
  ASSERT_EQ(kernel["levels"].size(), 1U);
  const json& inner = data.json["levels"][kernel["levels"][0].get<std::size_t>()];
  ASSERT_EQ(inner["boxes"].size(), 4U) << "in, two ops, out";
  const json& first = data.json["nodes"][inner["boxes"][1]["node"].get<std::size_t>()];
  EXPECT_EQ(first[7], json::array({0})) << "what the kernel reads has its number outside";
  EXPECT_EQ(first[8], json::array({-2}));
}

TEST(Explorer, HostileNamesStayTextAndThePageSmall) {
  const std::size_t long_name = diptych::testing::is_short_run() ? 10'000 : 100'000;
  const std::vector<std::string> hostile = {"\"quoted\" 'single'",
                                            "</script><script>alert(1)</script>",
                                            "<!--",
                                            "javascript:alert(1)",
                                            "{{data}} {{script}}",
                                            "</template><img src=x onerror=alert(1)>",
                                            "bidi \xe2\x80\xae mark",
                                            std::string("nul\0nul \x1b[31m\x7f \xff\xfe", 17),
                                            std::string(long_name, 'x'),
                                            [&] {
                                              std::string deep;
                                              while (deep.size() < long_name) {
                                                deep += "a.";
                                              }
                                              return deep;
                                            }()};
  Graph graph = tower(static_cast<int>(hostile.size()), [](int i) { return fmt::format("b{}", i); });
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    graph.nodes[i].provenance.scope = hostile[i % hostile.size()].c_str();
    graph.nodes[i].provenance.where.file = hostile[(i + 3) % hostile.size()].c_str();
  }
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    graph.inputs[i].name = hostile[i % hostile.size()];
  }
  ExplorerInput input = input_of({&graph});
  for (const std::string& name : hostile) {
    input.stages.push_back({name, &graph, false, 1e-3});
  }
  for (const std::size_t i : {std::size_t{1}, std::size_t{4}, hostile.size() - 2}) {
    input.workload = hostile[i];
    const std::string page = render_explorer(input);
    EXPECT_EQ(markup_problem(page), "");
    EXPECT_LT(page.size(), 300'000U);
    std::size_t scripts = 0;
    for (std::size_t at = page.find("<script"); at != std::string::npos; at = page.find("<script", at + 1)) {
      ++scripts;
    }
    EXPECT_EQ(scripts, 2U) << "the data and the program";
    EXPECT_THAT(page, AllOf(Not(HasSubstr("<img")), Not(HasSubstr("alert(1)</script>")), Not(HasSubstr("\xe2\x80\xae")),
                            Not(HasSubstr("href=")), Not(HasSubstr("style=\""))));
  }
}

TEST(Explorer, ReadsWithoutScript) {
  const Graph graph = tower(12, [](int i) { return fmt::format("blocks.{}", i); });
  ExplorerInput input = input_of({&graph, &graph});
  input.stages[1].changed = false;
  const std::string page = render_explorer(input);
  const std::string body = page.substr(0, page.find("id=\"app\""));
  EXPECT_THAT(body, AllOf(HasSubstr(">blocks.0 to blocks.11<"), HasSubstr("× 12, 3 ops each"), HasSubstr("as captured"),
                          HasSubstr("after pass 1"), HasSubstr("unchanged"), HasSubstr("36")));
  EXPECT_THAT(page, AllOf(HasSubstr("default-src 'none'"), Not(HasSubstr("unsafe-inline")),
                          Not(HasSubstr("http://www.w3.org/1999"))));
  EXPECT_EQ(markup_problem(page), "");
}

}  // namespace
}  // namespace diptych::reports
