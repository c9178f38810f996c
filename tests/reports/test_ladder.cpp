// The ladder from rounds whose savings are known.

#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/analyse.h"
#include "reports/analysis/ladder.h"
#include "reports/html/charts.h"
#include "reports/html/html.h"
#include "reports/run/json_access.h"
#include "reports/run/schema.h"
#include "reports/statistics/statistics.h"
#include "reports/text/format.h"
#include "reports/text/svg.h"
#include "reports/views/ladder_table.h"
#include "reports/views/markdown.h"
#include "reports/views/split_views.h"
#include "reports/views/summary.h"
#include "reports/views/table.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::sample_run;
using testing::SampleCell;
using testing::SampleSize;
using ::testing::SizeIs;
using Json = nlohmann::json;

const SampleSize kSilent{"standard", 4, 5, 0, 0, 1};

/// eager 100 us, replay 70, +plan 64, graph 48: the rungs save 30, 6 and 16 of 52 us.
SampleCell four_arms() {
  return {"mlp/digits", {"eager", "replay", "+plan", "graph"}, {1e-4, 7e-5, 6.4e-5, 4.8e-5}, {0, 1e-3, 2e-3, 3e-3}};
}

Json with_groups(Json run) {
  for (Json& cell : run["cells"]) {
    for (Json& arm : cell["arms"]) {
      const std::string name = arm["name"];
      if (name == "replay") {
        arm["groups"] = Json::array();
      } else if (name == "+plan") {
        arm["groups"] = {"+plan"};
      } else if (name == "graph") {
        arm["groups"] = {"+plan", "+simplify"};
        arm["rung"] = "+simplify";
      } else if (name == "replay+simplify") {
        arm["groups"] = {"+simplify"};
        arm["in_ladder"] = false;
      }
    }
  }
  analyse(run);
  return run;
}

double value(const Json& estimate) { return estimate["estimate"]; }

/// In microseconds, of one process: [arm][round].
Json run_of_rounds(const std::vector<std::string>& arms, const std::vector<std::vector<double>>& micros) {
  SampleCell cell{"a", arms, std::vector<double>(arms.size(), 1e-6), std::vector<double>(arms.size(), 0)};
  Json run = sample_run({cell}, {"standard", 1, static_cast<int>(micros[0].size()), 0, 0, 1});
  Json& rounds = run["cells"][0]["processes"][0]["rounds"];
  for (std::size_t j = 0; j < rounds.size(); ++j) {
    for (std::size_t i = 0; i < arms.size(); ++i) {
      rounds[j]["seconds"][arms[i]] = micros[i][j] * 1e-6;
    }
  }
  analyse(run);
  return run;
}

TEST(LadderOf, KnownSavings) {
  const Json run = with_groups(sample_run({four_arms()}, kSilent));
  EXPECT_THAT(validate(run), IsEmpty());
  const Json& ladder = run["cells"][0]["ladder"];
  EXPECT_EQ(ladder["order"], Json({"eager", "replay", "+plan", "graph"}));
  ASSERT_THAT(ladder["rungs"], SizeIs(3));
  const double saved[] = {30e-6, 6e-6, 16e-6};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(value(ladder["rungs"][i]["saved_seconds"]), saved[i], 1e-15);
    EXPECT_NEAR(ladder["rungs"][i]["share"].get<double>(), saved[i] / 52e-6, 1e-9);
    EXPECT_EQ(ladder["rungs"][i]["ulp"], 0);
  }
  EXPECT_EQ(ladder["rungs"][2]["name"], "+simplify");
  EXPECT_EQ(ladder["rungs"][2]["to"], "graph");
  EXPECT_NEAR(value(ladder["gap_seconds"]), 52e-6, 1e-15);
  EXPECT_NEAR(value(ladder["residual_seconds"]), 0, 1e-15);
  // +plan pays 2 ms once and saves 36 us a call.
  EXPECT_EQ(ladder["rungs"][1]["break_even"]["calls"], 56);
  EXPECT_NEAR(value(ladder["rungs"][1]["compile_seconds"]), 2e-3, 1e-9);
}

TEST(LadderOf, RungsAndResidualAddUpHoweverNoisy) {
  const Json run = with_groups(sample_run({four_arms()}, {"standard", 8, 12, 0.2, 0.3, 7}));
  const Json& ladder = run["cells"][0]["ladder"];
  double sum = value(ladder["residual_seconds"]);
  for (const Json& rung : ladder["rungs"]) {
    sum += value(rung["saved_seconds"]);
  }
  EXPECT_NEAR(sum, value(ladder["gap_seconds"]), 1e-15);
  EXPECT_GT(std::abs(value(ladder["residual_seconds"])), 1e-9) << "medians of noisy rounds don't add up by themselves";
}

// Differences by hand: eager - replay 1, 2, 6; replay - graph 5, 1, 2; eager - graph 6, 3, 8. Medians 2, 2 and 6: the
// residual is 2.
TEST(LadderOf, TheMedianOfPairedRoundsIsTheSaving) {
  const Json run = run_of_rounds({"eager", "replay", "graph"}, {{10, 10, 10}, {9, 8, 4}, {4, 7, 2}});
  const Json& ladder = run["cells"][0]["ladder"];
  EXPECT_NEAR(value(ladder["rungs"][0]["saved_seconds"]), 2e-6, 1e-15);
  EXPECT_NEAR(value(ladder["rungs"][1]["saved_seconds"]), 2e-6, 1e-15);
  EXPECT_NEAR(value(ladder["gap_seconds"]), 6e-6, 1e-15);
  EXPECT_NEAR(value(ladder["residual_seconds"]), 2e-6, 1e-15);
}

TEST(LadderOf, ASlowRoundOrProcessCancels) {
  const Json run = run_of_rounds({"eager", "graph"}, {{10, 100, 10}, {8, 98, 8}});
  EXPECT_NEAR(value(run["cells"][0]["ladder"]["gap_seconds"]), 2e-6, 1e-15);
  // Processes 1 and 2 times as slow: half is saved in both, so that the interval is a point, half of eager's own
  // figure.
  SampleCell cell{"a", {"eager", "graph"}, {1e-4, 5e-5}, {0, 0}};
  Json slow = sample_run({cell}, {"standard", 2, 3, 0, 0, 1});
  for (Json& round : slow["cells"][0]["processes"][1]["rounds"]) {
    round["seconds"] = {{"eager", 2e-4}, {"graph", 1e-4}};
  }
  analyse(slow);
  const Json& gap = slow["cells"][0]["ladder"]["gap_seconds"];
  EXPECT_NEAR(value(gap), std::sqrt(0.5) * 1e-4, 1e-15);
  EXPECT_NEAR(gap["low"].get<double>(), gap["high"].get<double>(), 1e-15);
}

// +simplify saves 16 of 64 us with planned memory and 10 of 70 without; +plan 6 alone and 12 on top of it.
TEST(LadderOf, SavingsByPlace) {
  SampleCell cell = four_arms();
  cell.arms.emplace_back("replay+simplify");
  cell.seconds.push_back(6e-5);
  cell.compile.push_back(1e-3);
  const Json run = with_groups(sample_run({cell}, kSilent));
  EXPECT_THAT(validate(run), IsEmpty());
  const Json& rungs = run["cells"][0]["ladder"]["rungs"];
  ASSERT_THAT(rungs, SizeIs(3)) << "another set of passes is no rung";
  EXPECT_TRUE(rungs[0]["by_place"].is_null()) << "capture has one place";
  for (const auto& [rung, low, high] : {std::tuple{1, 6e-6, 12e-6}, {2, 10e-6, 16e-6}}) {
    const Json& place = rungs[static_cast<std::size_t>(rung)]["by_place"];
    EXPECT_EQ(place["places"], 2);
    EXPECT_NEAR(place["low_seconds"].get<double>(), low, 1e-15);
    EXPECT_NEAR(place["high_seconds"].get<double>(), high, 1e-15);
    EXPECT_NEAR(place["high_share"].get<double>(), high / 52e-6, 1e-9);
  }
  EXPECT_THAT(render_ladder(run), HasSubstr("12 % to 23 %"));
}

TEST(LadderOf, PassesThatChangeNothingAreTheSameGraph) {
  Json run = with_groups(sample_run({four_arms()}, kSilent));
  Json& arms = run["cells"][0]["arms"];
  const Json pass = {
      {"name", "cse"}, {"nodes_before", 120}, {"nodes_after", 120}, {"seconds", 1e-5}, {"changed", false}};
  arms[3]["exact"] = arms[2]["exact"];
  arms[3]["passes"] = {pass};
  const auto same = [&] {
    analyse(run);
    std::vector<bool> each;
    for (const Json& rung : run["cells"][0]["ladder"]["rungs"]) {
      each.push_back(rung["same_graph"]);
    }
    return each;
  };
  EXPECT_THAT(same(), ElementsAre(false, false, true));
  EXPECT_THAT(validate(run), IsEmpty());
  EXPECT_THAT(render_ladder(run), ContainsRegex("[+]simplify .* same IR"));
  EXPECT_THAT(render_table(run), HasSubstr("passes: the same graph")) << "it seems to save 16 us";
  EXPECT_THAT(render_html(run), AllOf(HasSubstr(">the same graph<"), HasSubstr("<td>same IR</td>")));

  arms[3]["exact"]["peak_bytes"] = 263064;
  EXPECT_THAT(same(), ElementsAre(false, false, false)) << "packed weights are no pass";
  arms[3]["exact"] = arms[2]["exact"];
  arms[3]["passes"][0]["changed"] = true;
  EXPECT_THAT(same(), ElementsAre(false, false, false));
  arms[2]["passes"] = arms[3]["passes"];
  EXPECT_THAT(same(), ElementsAre(false, false, true)) << "which the arm before has, too";
  arms[2]["passes"][0]["changed"] = false;
  EXPECT_THAT(same(), ElementsAre(false, true, false)) << "and changes nothing with it";
  arms[2]["passes"] = arms[3]["passes"];
  arms[2]["threads"] = arms[3]["threads"] = 2;
  EXPECT_THAT(same(), ElementsAre(false, false, false)) << "what runs side by side has no count that is certain";
}

// Four rungs a, b, c, d that save 8, 4, 2 and 1 us; d saves 3 more wherever b is on. Measured: the ladder, and the
// orders d c b a and b d a c.
TEST(LadderOf, SavingsByPlaceOfFourRungs) {
  const std::vector<std::string> rungs = {"+a", "+b", "+c", "+d"};
  const std::vector<std::string> sets = {"", "a", "ab", "abc", "abcd", "d", "cd", "bcd", "b", "bd", "abd"};
  SampleCell cell{"a", {"eager"}, {4e-5}, {0}};
  for (const std::string& set : sets) {
    const auto has = [&](char rung) { return set.find(rung) != std::string::npos; };
    cell.arms.push_back("replay" + set);
    cell.seconds.push_back(1e-6 * (30 - 8 * has('a') - 4 * has('b') - 2 * has('c') - (has('b') ? 4 : 1) * has('d')));
    cell.compile.push_back(0);
  }
  Json run = sample_run({cell}, kSilent);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    Json& arm = run["cells"][0]["arms"][i + 1];
    arm["groups"] = Json::array();
    for (const char rung : sets[i]) {
      arm["groups"].push_back(std::string("+") + rung);
    }
    arm["in_ladder"] = i < 5;
  }
  analyse(run);
  EXPECT_THAT(validate(run), IsEmpty());
  const Json& ladder = run["cells"][0]["ladder"]["rungs"];
  ASSERT_THAT(ladder, SizeIs(5)) << "capture and four rungs";
  // a: on {}, b, bd, bcd. b: on a and {}; on d and cd. c: on ab, abd, d, bd. d: on {}; on b, ab, abc.
  const struct { double low, high; } expected[] = {{8, 8}, {4, 7}, {2, 2}, {1, 4}};
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& place = ladder[i + 1]["by_place"];
    EXPECT_EQ(place["places"], 4) << rungs[i];
    EXPECT_NEAR(place["low_seconds"].get<double>(), expected[i].low * 1e-6, 1e-13) << rungs[i];
    EXPECT_NEAR(place["high_seconds"].get<double>(), expected[i].high * 1e-6, 1e-13) << rungs[i];
  }
}

/// Eager 100, without kernels 52: list 40 of inference 10, allocation 20; tape 30 - 25 + 4. With kernels the list takes
/// 3 more than 40 and the kernels' 40; replay has 5 beside them. In nanoseconds.
Json with_split(Json run) {
  for (Json& process : run["cells"][0]["processes"]) {
    process["op_split"] = {{"ops", 3},
                           {"recorded", 2},
                           {"eager_seconds", 100e-9},
                           {"hollow_seconds", 52e-9},
                           {"list_seconds", 83e-9},
                           {"hollow_list_seconds", 40e-9},
                           {"memory_seconds", 3e-9},
                           {"kernel_seconds", 40e-9},
                           {"inference_seconds", 10e-9},
                           {"allocation_seconds", 20e-9},
                           {"replay_seconds", 45e-9},
                           {"hollow_replay_seconds", 5e-9},
                           {"taped_seconds", 30e-9},
                           {"untaped_seconds", 25e-9},
                           {"backward_seconds", 4e-9},
                           {"kinds",
                            {{{"op", "matmul"},
                              {"calls", 1},
                              {"apply_seconds", 5e-9},
                              {"kernel_seconds", 35e-9},
                              {"inference_seconds", 1e-9},
                              {"allocation_seconds", 2e-9}},
                             {{"op", "tanh"},
                              {"calls", 2},
                              {"apply_seconds", 35e-9},
                              {"kernel_seconds", 5e-9},
                              {"inference_seconds", 9e-9},
                              {"allocation_seconds", 18e-9}}}}};
  }
  return with_groups(std::move(run));
}

// In units of eager's 100 us: dispatch 40 - 30 = 10 %, tape 9 %, program 52 - 40 - 9 = 3 %, memory 3 %, replay's own 5
// %: 52 + 3 - 5 = 50 us, where the rung saves 30.
TEST(LadderSplit, PartsByHand) {
  const Json run = with_split(sample_run({four_arms()}, kSilent));
  EXPECT_THAT(validate(run), IsEmpty());
  const Json& split = run["cells"][0]["ladder"]["split"];
  for (const auto& [part, micros] : {std::pair{"dispatch_seconds", 10.0},
                                     {"inference_seconds", 10.0},
                                     {"allocation_seconds", 20.0},
                                     {"tape_seconds", 9.0},
                                     {"program_seconds", 3.0},
                                     {"memory_seconds", 3.0},
                                     {"kernel_seconds", 40.0},
                                     {"replay_overhead_seconds", 5.0},
                                     {"explained_seconds", 50.0},
                                     {"rung_seconds", 30.0},
                                     {"residual_seconds", -20.0}}) {
    EXPECT_NEAR(value(split[part]), micros * 1e-6, 1e-12) << part;
  }
  EXPECT_EQ(split["kinds"][0]["op"], "tanh") << "most time besides its kernel";
  // Alone, without kernels, tanh has 8 and matmul 2 of dispatch, 18 and 2 of allocation, 5 and 35 of kernel.
  EXPECT_NEAR(split["kinds"][0]["dispatch_seconds"].get<double>(), 8e-6, 1e-12);
  EXPECT_NEAR(split["kinds"][0]["allocation_seconds"].get<double>(), 18e-6, 1e-12);
  EXPECT_NEAR(split["kinds"][1]["kernel_seconds"].get<double>(), 35e-6, 1e-12);
  EXPECT_EQ(split["rung_seconds"], run["cells"][0]["ladder"]["rungs"][0]["saved_seconds"]);
  EXPECT_EQ(split["within"], false) << "all processes say the same";
  EXPECT_THAT(render_ladder(run), HasSubstr("No split of eager's time by op: its parts add up to 50.0 us"));
  EXPECT_THAT(render_ladder(run), HasSubstr("the rung saves 30.0 us"));
  EXPECT_EQ(testing::markup_problem(render_html(run)), "");
}

TEST(LadderSplit, WhatIsExplainedLiesInTheInterval) {
  SampleCell cell = four_arms();
  cell.seconds[1] = 5e-5;  // the rung saves 50 of 100 us
  Json run = with_split(sample_run({cell}, {"standard", 8, 12, 0.01, 0.01, 3}));
  EXPECT_EQ(run["cells"][0]["ladder"]["split"]["within"], true);
  const std::string table = render_ladder(run);
  EXPECT_THAT(table, HasSubstr("the difference may be zero"));
  EXPECT_THAT(table, ContainsRegex("  tape +9\\.0[0-9] us"));
  EXPECT_THAT(table, ContainsRegex("  replay's own +5\\.0[0-9] us.* +comes off"));
  EXPECT_THAT(render_html(run), HasSubstr("kernels on memory that isn"));
}

TEST(LadderSplit, APartThatMayBeZeroIsNeverANegativeCost) {
  EXPECT_EQ(part_text(Estimate{2e-6, 1.5e-6, 2.5e-6}, Glyphs::ascii), "2.00 us [1.50, 2.50]");
  EXPECT_EQ(part_text(Estimate{-2e-6, -5e-6, 1e-6}, Glyphs::ascii), "under 1.00 us");
  EXPECT_EQ(part_text(Estimate{2e-6, -1e-6, 5e-6}, Glyphs::ascii), "under 5.00 us");
  EXPECT_EQ(part_text(Estimate{-2e-6, -3e-6, -1e-6}, Glyphs::ascii), "none: 2.00 us less");
  EXPECT_EQ(part_text(Estimate{-2e-6, {}, {}}, Glyphs::ascii), "not told from 0");
}

TEST(LadderSplit, RunsOfEarlierVersionsAreToBeMeasuredAgain) {
  Json run = with_split(sample_run({four_arms()}, kSilent));
  for (Json& process : run["cells"][0]["processes"]) {
    process["op_split"].erase("hollow_seconds");
  }
  run = with_groups(run);
  EXPECT_THAT(validate(run), IsEmpty());
  EXPECT_THAT(render_ladder(run), HasSubstr("small differences of large times"));
}

TEST(LadderSplit, ReasonsAreShownAndOldRunsHaveNone) {
  Json run = with_split(sample_run({four_arms()}, kSilent));
  run["cells"][0]["processes"][1]["op_split"] = {{"reason", "scan is control flow"}};
  run = with_groups(run);
  EXPECT_EQ(run["cells"][0]["ladder"]["split"], Json({{"reason", "scan is control flow"}}));
  EXPECT_THAT(validate(run), IsEmpty());
  EXPECT_THAT(render_ladder(run), HasSubstr("No split of eager's time by op: scan is control flow."));
  EXPECT_THAT(render_markdown(run), HasSubstr("scan is control flow"));
  const Json old = with_groups(sample_run({four_arms()}, kSilent));
  EXPECT_TRUE(old["cells"][0]["ladder"]["split"].is_null());
}

TEST(LadderOf, WithoutOneThereIsNull) {
  const Json alone = with_groups(sample_run({SampleCell{"a", {"eager"}, {1e-4}, {0}}}, kSilent));
  EXPECT_TRUE(alone["cells"][0]["ladder"].is_null());
  Json invalid = sample_run({four_arms()}, kSilent);
  invalid["cells"][0]["validity"] = {{"agree", false}, {"checks", Json::array()}, {"reason", "output 0: 3 ULP"}};
  invalid = with_groups(invalid);
  EXPECT_TRUE(invalid["cells"][0]["ladder"].is_null());
  EXPECT_THAT(render_ladder(invalid), HasSubstr("no ladder: output 0: 3 ULP"));
  Json empty = sample_run({four_arms()}, kSilent);
  empty["cells"][0]["processes"] = Json::array();
  EXPECT_TRUE(with_groups(empty)["cells"][0]["ladder"].is_null());
  EXPECT_TRUE(ladder_of(Json()).is_null());
}

TEST(LadderOf, HasNoSharesWhenTheGapIsUnclear) {
  SampleCell cell{"a", {"eager", "graph"}, {1e-4, 1e-4}, {0, 0}};
  const Json run = with_groups(sample_run({cell}, {"standard", 6, 6, 0.1, 0.1, 4}));
  const Json& ladder = run["cells"][0]["ladder"];
  EXPECT_TRUE(ladder["rungs"][0]["share"].is_null());
  EXPECT_TRUE(ladder["residual_share"].is_null());
  EXPECT_THAT(validate(run), IsEmpty());
}

TEST(LadderViews, OldRunsShowTheirRungs) {
  Json run = with_groups(sample_run({four_arms()}, kSilent));
  EXPECT_EQ(Cell(run["cells"][0]).rungs().json(), run["cells"][0]["ladder"]["rungs"]);
  run["cells"][0].erase("ladder");
  EXPECT_EQ(Cell(run["cells"][0]).rungs().json(), run["cells"][0]["rungs"]);
  EXPECT_THAT(validate(run), IsEmpty());
  EXPECT_EQ(testing::markup_problem(render_html(run)), "");
}

/// The texts of an SVG picture, in order.
std::vector<std::string> texts_of(const std::string& svg) {
  std::vector<std::string> texts;
  for (std::size_t at = svg.find("<text"); at != std::string::npos; at = svg.find("<text", at + 1)) {
    const std::size_t begin = svg.find('>', at) + 1;
    texts.push_back(svg.substr(begin, svg.find('<', begin) - begin));
  }
  return texts;
}

// On a machine whose speed changes from process to process.
TEST(LadderViews, AnArmHasOneFigure) {
  const Json run = with_groups(sample_run({four_arms()}, {"standard", 8, 12, 0.3, 0.2, 3}));
  const Json& cell = run["cells"][0];
  for (const auto& [arm, rung] : {std::pair{"eager", "eager"}, {"graph", "+simplify"}}) {
    const auto seconds = estimate(member(Cell(cell).arm(arm).json(), "seconds"));
    const std::string ascii = format_seconds(std::optional(seconds->value));
    const std::string rich = format_seconds(std::optional(seconds->value), Glyphs::typographic);
    EXPECT_THAT(texts_of(bars_chart(cell)), ::testing::Contains(rich)) << arm;
    EXPECT_THAT(texts_of(ladder_chart(cell)), ::testing::Contains(rich)) << arm;
    EXPECT_THAT(render_markdown(run),
                ::testing::ContainsRegex(fmt::format("\\| {} \\|[^\n]*\\| {} ",
                                                     rung == std::string("eager") ? "eager" : "\\+simplify", rich)))
        << arm;
    EXPECT_THAT(render_ladder(run, {false, 200}), HasSubstr(ascii)) << arm;
    EXPECT_THAT(render_table(run, {false, 200}), HasSubstr(ascii)) << arm;
  }
  // run.json too: what the first version calls rungs are the ladder's.
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(cell["rungs"][i]["saved_seconds"], cell["ladder"]["rungs"][i]["saved_seconds"]);
  }
}

// A machine that is half as fast in one process is so for every arm: the ladder ends at graph's own figure.
TEST(LadderViews, TheGapLeadsFromTheFirstArmsFigureToTheLasts) {
  Json run = sample_run({four_arms()}, kSilent);
  for (Json& round : run["cells"][0]["processes"][2]["rounds"]) {
    for (Json& seconds : round["seconds"]) {
      seconds = 2 * seconds.get<double>();
    }
  }
  run = with_groups(run);
  const Json& cell = run["cells"][0];
  EXPECT_NEAR(value(Cell(cell).arm("eager").json()["seconds"]) - value(cell["ladder"]["gap_seconds"]),
              value(Cell(cell).arm("graph").json()["seconds"]), 1e-12);
}

// replay takes 30 us more than eager.
TEST(LadderViews, ARungThatCostsIsDrawnAndSignedAsACost) {
  const Json run =
      with_groups(sample_run({{"a", {"eager", "replay", "graph"}, {1e-4, 1.3e-4, 6e-5}, {0, 0, 0}}}, kSilent));
  const std::string chart = ladder_chart(run["cells"][0]);
  EXPECT_THAT(texts_of(chart),
              AllOf(::testing::Contains("costs 30.0 µs, -75 %"), ::testing::Contains("saves 70.0 µs, 175 %")));
  EXPECT_EQ(chart.find("added"), chart.rfind("added")) << "one cost";
  EXPECT_NE(chart.find("added"), std::string::npos);
  for (const std::string& table : {render_ladder(run, {false, 200}), render_markdown(run), render_html(run)}) {
    EXPECT_THAT(table, ::testing::ContainsRegex("costs 30\\.0 (us|µs)"));
    EXPECT_THAT(table, Not(::testing::ContainsRegex("-30\\.0 (us|µs)")));
  }
  EXPECT_THAT(render_ladder(run, {false, 200}), ::testing::ContainsRegex("replay +\\| +\\+\\+\\+\\+\\+\\|"));
}

TEST(LadderViews, TableStatesOrderResidualAndResult) {
  const Json run = with_groups(sample_run({four_arms()}, kSilent));
  const std::string wide = render_ladder(run, {false, 160});
  EXPECT_THAT(wide, AllOf(HasSubstr("eager -> replay -> +plan -> +simplify (= graph)"), HasSubstr("residual"),
                          HasSubstr("whole gap"), HasSubstr("bitwise"), HasSubstr("58 %")));
  // eager fills all 20 columns; replay saves 30 %, 6 of them.
  EXPECT_THAT(wide, HasSubstr("eager      |====================|"));
  EXPECT_THAT(wide, HasSubstr("replay     |              ######|"));
  EXPECT_THAT(wide, Not(HasSubstr("by place")));
  const std::string narrow = render_ladder(run, {false, 80});
  EXPECT_THAT(narrow, HasSubstr("replay     |              ######|"));
  const std::string markdown = render_markdown(run);
  EXPECT_THAT(markdown, AllOf(HasSubstr("## The ladder"), HasSubstr("| residual |")));
  const std::string html = render_html(run);
  EXPECT_EQ(testing::markup_problem(html), "");
  EXPECT_THAT(html, AllOf(HasSubstr("The ladder"), HasSubstr("residual"), HasSubstr("bitwise")));
}

TEST(LadderViews, HostileNamesAreShownHarmless) {
  SampleCell cell{"a", {"eager", "\x1b[31m<script>|", "graph"}, {3e-4, 2e-4, 1e-4}, {0, 0, 0}};
  const Json run = with_groups(sample_run({cell}, kSilent));
  for (const std::string& view : {render_ladder(run), render_markdown(run), render_html(run)}) {
    EXPECT_THAT(view, Not(HasSubstr("\x1b")));
  }
  EXPECT_EQ(testing::markup_problem(render_html(run)), "");
  Json strange = run;
  strange["cells"][0]["ladder"]["order"] = {1, nullptr};
  strange["cells"][0]["ladder"]["rungs"][0] = "no object";
  EXPECT_THAT(render_ladder(strange), HasSubstr("residual"));
  EXPECT_EQ(testing::markup_problem(render_html(strange)), "");
}

TEST(LadderChart, ValuesEndWithinThePicture) {
  const Json run =
      with_groups(sample_run({{"a", {"eager", "replay", "graph"}, {1e-4, 9.12e-5, 1.2345e-4}, {0, 0, 0}}}, kSilent));
  const std::string svg = ladder_chart(run["cells"][0]);
  std::size_t values = 0;
  for (std::size_t at = svg.find("<text x=\""); at != std::string::npos; at = svg.find("<text x=\"", at + 1)) {
    const std::string element = svg.substr(at, svg.find("</text>", at) - at);
    if (element.find("class=\"num\"") != std::string::npos) {
      constexpr double kBold = 14;
      const std::string value = element.substr(element.find('>') + 1);
      EXPECT_LE(std::stod(element.substr(9)) + text_width(value, kBold), kChartWidth) << value;
      ++values;
    }
  }
  EXPECT_GE(values, 3U);
}

}  // namespace
}  // namespace diptych::reports
