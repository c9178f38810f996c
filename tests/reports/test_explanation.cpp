// What `diptych why` says, on runs of every outcome: nothing that the data don't hold, on one screen.

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/analyse.h"
#include "reports/html/html.h"
#include "reports/run/schema.h"
#include "reports/text/text.h"
#include "reports/views/explanation.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::SampleCell;
using testing::SampleSize;
using Json = nlohmann::json;

Json fused(double seconds, double apart, bool loss) {
  const double ratio = seconds / apart;
  return {{"pass", "fuse"},     {"value", "%3"},          {"ops", "mul, add, exp"},
          {"seconds", seconds}, {"apart_seconds", apart}, {"ratio", {ratio - 0.01, ratio, ratio + 0.01}},
          {"loss", loss},       {"vetoed", false}};
}

/// Two rows of a profile of eager and graph.
Json profile_of(double eager, double graph) {
  const auto row = [&](const std::string& name, double share, const char* fate) {
    return Json{{"name", name},
                {"kind", "ops"},
                {"ops", 3},
                {"arms",
                 {{{"name", "eager"}, {"seconds", share * eager}, {"estimate", false}, {"fates", Json::array()}},
                  {{"name", "graph"},
                   {"seconds", share * graph},
                   {"estimate", true},
                   {"fates", {{{"fate", fate}, {"with", {"add"}}, {"pass", ""}, {"ops", 3}}}}}}},
                {"saved_seconds", share * (eager - graph)},
                {"share", share}};
  };
  return {{"by", "op"},
          {"steps", 10},
          {"arms", {{{"name", "eager"}, {"seconds", eager}}, {{"name", "graph"}, {"seconds", graph}}}},
          {"rows", {row("matmul", 0.75, "kernel"), row("mul", 0.25, "fused")}}};
}

struct Times {
  double eager = 1e-3, replay = 0.8e-3, graph = 0.5e-3;
  double compile = 1e-2;
};

/// A run of `diptych why` with all parts.
Json why_run(const Times& times, const std::string& size = "standard", const std::string& workload = "mlp/digits") {
  const SampleCell cell{workload,
                        {"eager", "replay", "graph"},
                        {times.eager, times.replay, times.graph},
                        {0, times.compile, times.compile}};
  Json run = testing::sample_run({cell}, size == "quick" ? SampleSize{"quick", 3, 6} : SampleSize{});
  run["why"] = {{"calls", 1000}};
  Json& raw = run["cells"][0];
  raw["arms"][1]["cause"] = "dispatch and tape";
  raw["arms"][2]["cause"] = "memory traffic";
  raw["arms"][2]["passes"].back()["refused"] = {
      {{"producer", "linear"}, {"consumer", "gelu"}, {"why", "kind"}, {"edges", 4}},
      {{"producer", "add"}, {"consumer", "tanh"}, {"why", "unprofitable"}, {"edges", 1}}};
  raw["profile"] = profile_of(times.eager, times.graph);
  analyse(run);
  run["cells"][0]["limits"] = {{"fma_flops_per_second", 1e11},
                               {"bandwidth", {{{"level", "L2"}, {"size_bytes", 1048576}, {"bytes_per_second", 1e11}}}},
                               {"flops", 3e7},
                               {"op_bytes", 1e6},
                               {"bytes", 1e5},
                               {"arithmetic_intensity", 300},
                               {"level", "L2"},
                               {"bound", "compute"},
                               {"limit_seconds", 3e-4},
                               {"arms",
                                {{{"name", "eager"}, {"share", 0.3}},
                                 {{"name", "replay"}, {"share", 0.375}},
                                 {{"name", "graph"}, {"share", 0.6}}}}};
  return run;
}

std::string said(const Json& run, double calls = 1000) {
  const Cell cell = reports::Run(run).cells()[0];
  return render_explanation(run, cell, calls);
}

std::string all_sentences(const Json& run, const std::string& label, double calls = 1000) {
  std::string text;
  for (const AnswerPart& part : explain(run, reports::Run(run).cells()[0], calls)) {
    for (const std::string& sentence : part.sentences) {
      text += part.label == label ? sentence + " " : "";
    }
  }
  return text;
}

std::vector<std::string> commands(const Json& run) {
  std::vector<std::string> all;
  for (const Suggestion& each : suggestions(run, reports::Run(run).cells()[0])) {
    all.push_back(each.command);
    EXPECT_NE(each.reason, "");
  }
  return all;
}

void expect_fits(const std::string& text) {
  std::istringstream in(text);
  int count = 0;
  for (std::string line; std::getline(in, line); ++count) {
    EXPECT_LE(display_width(line), 120) << line;
  }
  EXPECT_LE(count, 24) << text << "one more line names the folder";
}

TEST(Explanation, OfAGraphThatIsFaster) {
  const Json run = why_run({});
  EXPECT_THAT(validate(run), IsEmpty());
  const std::string text = said(run);
  expect_fits(text);
  EXPECT_THAT(text, ContainsRegex("How much +graph is [12]\\.[0-9]+x \\[.*\\] faster than eager: a call takes"));
  EXPECT_THAT(text, HasSubstr("FASTER"));
  EXPECT_THAT(all_sentences(run, "Causes"), ContainsRegex("memory traffic: saves (29.|3..) us \\[.*\\] \\(.. %\\); "
                                                          "dispatch and tape: saves (19.|2..) us"));
  EXPECT_THAT(text, ContainsRegex("matmul \\(3\\) +750 us +~375 us +375 us +same kernel"));
  EXPECT_THAT(text, HasSubstr("fused with add"));
  EXPECT_THAT(all_sentences(run, "Fusion"),
              HasSubstr("5 results are not fused with what reads them: kind 4, unprofitable 1; most often linear -> "
                        "gelu (4: one of them can't be computed in tiles)"));
  EXPECT_THAT(all_sentences(run, "Compiling"),
              ContainsRegex("It takes (9|10)\\..* ms and pays after .* calls \\[.*\\]; over 1,000 calls it saves "
                            "4.. ms \\(between 4.. ms and (4|5).. ms\\)"));
  EXPECT_THAT(all_sentences(run, "Limit"), HasSubstr("graph reaches 60 % of what the machine allows, eager 30 %"));
  EXPECT_THAT(commands(run), Not(::testing::Contains(HasSubstr("--standard"))));
}

TEST(Explanation, OfAQuickRunIsADirection) {
  const Json run = why_run({}, "quick");
  EXPECT_THAT(all_sentences(run, "How much"), HasSubstr("INDICATIVE: a quick run shows a direction"));
  ASSERT_FALSE(commands(run).empty());
  EXPECT_EQ(commands(run)[0], "diptych why mlp/digits --standard");
}

TEST(Explanation, OfAGraphThatIsSlower) {
  const Json run = why_run({1e-3, 0.9e-3, 1.5e-3});
  const std::string text = said(run);
  expect_fits(text);
  EXPECT_THAT(text, ContainsRegex("graph is 1\\.[0-9]+x \\[.*\\] slower than eager"));
  EXPECT_THAT(all_sentences(run, "Causes"),
              ContainsRegex("memory traffic: costs .* us \\[.*\\] \\(1.. % of the loss\\); dispatch and tape: saves"));
  EXPECT_THAT(all_sentences(run, "Compiling"),
              ContainsRegex("and never pays: a call takes .* longer; 1,000 calls lose (4|5).. ms"));
  EXPECT_THAT(text, Not(HasSubstr("pays after")));
  EXPECT_THAT(commands(run), ::testing::Contains("diptych ladder mlp/digits --shuffle-order"));
}

TEST(Explanation, OfWhatIsUndecided) {
  const Json run = why_run({1e-3, 1e-3, 1e-3}, "quick");
  const std::string text = said(run);
  expect_fits(text);
  EXPECT_THAT(all_sentences(run, "How much"), HasSubstr("graph against eager is undecided, 1.0"));
  EXPECT_THAT(all_sentences(run, "Causes"),
              HasSubstr("Not told apart from nothing: dispatch and tape, memory traffic."));
  EXPECT_THAT(all_sentences(run, "Compiling"), HasSubstr("whether it pays is undecided"));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("pays after")), Not(HasSubstr("faster than")), Not(HasSubstr(": saves")),
                          Not(HasSubstr(": costs"))));
}

TEST(Explanation, OfPassesThatFoundNothingToDo) {
  Json run = why_run({1e-3, 0.7e-3, 0.9e-3});
  EXPECT_THAT(all_sentences(run, "Causes"), HasSubstr("memory traffic: costs"));
  EXPECT_THAT(commands(run), ::testing::Contains("diptych ladder mlp/digits --shuffle-order"));
  run["cells"][0]["ladder"]["rungs"][1]["same_graph"] = true;
  EXPECT_THAT(all_sentences(run, "Causes"), AllOf(HasSubstr("The graph stays the same: memory traffic."),
                                                  Not(HasSubstr("memory traffic: costs")), Not(HasSubstr("Not told"))));
  EXPECT_THAT(commands(run), Not(::testing::Contains("diptych ladder mlp/digits --shuffle-order")));
}

TEST(Explanation, OfADispatchGainThatPassesLoseAgain) {
  const Json run = why_run({1e-3, 0.7e-3, 1.0e-3});
  EXPECT_THAT(all_sentences(run, "Causes"),
              AllOf(ContainsRegex("dispatch and tape: saves .* us"), ContainsRegex("memory traffic: costs .* us")));
  EXPECT_THAT(all_sentences(run, "How much"), AnyOf(HasSubstr("undecided"), HasSubstr("take the same time")));
  EXPECT_THAT(said(run), Not(HasSubstr("faster than eager")));
}

TEST(Explanation, NamesFusedKernelsThatLose) {
  Json run = why_run({});
  run["cells"][0]["arms"][2]["fused"] = {fused(4e-5, 2e-5, true), fused(1e-5, 3e-5, false)};
  EXPECT_THAT(all_sentences(run, "Fusion"),
              HasSubstr("2 fused kernels take 50.0 us, what they replace 50.0 us; 1 loses; most, mul, add, exp takes "
                        "2.00 of it"));
  EXPECT_THAT(commands(run), AllOf(::testing::Contains("diptych graph mlp/digits --time-fused"),
                                   ::testing::Contains("diptych ladder mlp/digits --veto-losses")));
  run["cells"][0]["arms"][2]["fused"] = {fused(1e-5, 3e-5, false)};
  EXPECT_THAT(commands(run), Not(::testing::Contains("diptych ladder mlp/digits --veto-losses")));
}

TEST(Explanation, TooFewCallsLoseWhatCompilingTakes) {
  const Json run = why_run({1e-3, 0.8e-3, 0.5e-3, 1.0});
  EXPECT_THAT(all_sentences(run, "Compiling", 1),
              AllOf(ContainsRegex("pays after .* calls"), ContainsRegex("over 1 call it loses .*: too few calls")));
  EXPECT_THAT(all_sentences(run, "Compiling", 1e6), ContainsRegex("over 1,000,000 calls it saves"));
  const Json close = why_run({1e-3, 0.8e-3, 0.5e-3, 0.5});
  EXPECT_THAT(all_sentences(close, "Compiling", 1000), HasSubstr("it is undecided what it saves: between -"));
}

TEST(Explanation, DispatchThatDominatesHasItsOwnAdvice) {
  EXPECT_THAT(commands(why_run({1e-3, 0.2e-3, 0.15e-3})),
              ::testing::Contains("diptych run mlp/digits --arms eager,eager-pipelined,graph"));
  EXPECT_THAT(commands(why_run({1e-3, 0.2e-3, 0.15e-3}, "standard", "my model.onnx")),
              ::testing::Contains("diptych why 'my model.onnx':batch=32"));
  EXPECT_THAT(commands(why_run({})), Not(::testing::Contains(HasSubstr("eager-pipelined"))));
}

TEST(Explanation, ThreadsAreAdvisedOnlyNearTheLimitAndWhereThereAreSome) {
  Json run = why_run({});
  EXPECT_THAT(commands(run), ::testing::Contains("diptych ladder mlp/digits --threads 2"));
  run["environment"]["cpu"]["cores"] = 1;
  EXPECT_THAT(commands(run), Not(::testing::Contains(HasSubstr("--threads"))));
  run["environment"]["cpu"]["cores"] = 2;
  run["cells"][0]["limits"]["arms"][2]["share"] = 0.2;
  EXPECT_THAT(commands(run), Not(::testing::Contains(HasSubstr("--threads"))));
}

TEST(Explanation, ArmsThatDisagreeHaveNoCauses) {
  Json run = why_run({});
  run["cells"][0]["validity"] = {{"agree", false}, {"checks", Json::array()}, {"reason", "output 0 differs"}};
  analyse(run);
  const std::string text = said(run);
  expect_fits(text);
  EXPECT_THAT(text, AllOf(HasSubstr("INVALID: graph and eager cannot be compared: output 0 differs"),
                          Not(HasSubstr("Causes")), Not(HasSubstr("Compiling")), HasSubstr("--check-passes")));
}

/// A run of `diptych why --against ort`: ort takes so long, or says why it doesn't run.
Json run_against(double seconds, const std::string& failure = "") {
  Json run = why_run({}, "standard");
  Json& cell = run["cells"][0];
  Json arm = cell["arms"].back();
  arm.update({{"name", "ort"},
              {"in_ladder", false},
              {"external",
               {{"command", {"diptych_ort_arm", "all"}},
                {"framework", "ONNX Runtime 1.30.0"},
                {"threads", 1},
                {"overhead_nanoseconds", 50}}}});
  if (!failure.empty()) {
    arm["failed"] = failure;
  }
  cell["arms"].push_back(arm);
  for (Json& process : cell["processes"]) {
    for (Json& round : process["rounds"]) {
      if (failure.empty()) {
        round["seconds"]["ort"] = round["seconds"]["graph"].get<double>() * seconds / 0.5e-3;
        round["order"].push_back("ort");
      }
    }
  }
  const Json limits = cell["limits"];
  analyse(run);
  run["cells"][0]["limits"] = limits;
  return run;
}

TEST(Explanation, AgainstAnotherFrameworkThatIsSlower) {
  const Json run = run_against(0.75e-3);
  EXPECT_THAT(validate(run), IsEmpty());
  const std::string text = said(run);
  expect_fits(text);
  // Its rounds are the graph's times 1.5, so the paired ratio has no spread at all.
  EXPECT_THAT(text, ContainsRegex("Against +ort takes 7[0-9.]+ us: graph is 1.50x \\[1.50, 1.50\\] faster\\."));
  EXPECT_THAT(text, HasSubstr("Next "));
  EXPECT_THAT(markdown_explanation(reports::Run(run), reports::Run(run).cells()[0], 1000), HasSubstr("## Against"));
}

TEST(Explanation, WhatToTryNextKeepsTheOtherFrameworks) {
  Json run = run_against(0.75e-3);
  run["size"]["name"] = "quick";
  EXPECT_THAT(commands(run), ::testing::Contains("diptych why mlp/digits --standard --against ort"));
  run["cells"][0]["arms"].back()["name"] = "{}{0}";
  EXPECT_THAT(commands(run), ::testing::Contains("diptych why mlp/digits --standard --against '{}{0}'"));
}

TEST(Explanation, AgainstAnotherFrameworkThatIsFaster) {
  EXPECT_THAT(all_sentences(run_against(0.4e-3), "Against"), ContainsRegex("graph is 1.25x \\[.*\\] slower\\."));
  EXPECT_THAT(all_sentences(run_against(0.5e-3), "Against"), HasSubstr("graph against it is undecided, 1.00x"));
}

TEST(Explanation, AgainstAnotherFrameworkThatIsNotThere) {
  const Json run = run_against(0, "no library; npm install --ignore-scripts onnxruntime-node");
  EXPECT_THAT(all_sentences(run, "Against"),
              HasSubstr("ort was not measured: no library; npm install --ignore-scripts onnxruntime-node."));
  EXPECT_THAT(all_sentences(run, "How much"), HasSubstr("faster than eager"));
}

TEST(Explanation, SaysWhatIsMissing) {
  Json run = why_run({});
  Json& cell = run["cells"][0];
  cell.erase("profile");
  cell.erase("limits");
  cell["ladder"] = nullptr;
  cell["rungs"] = Json::array();
  cell["arms"][2]["passes"] = Json::array();
  const std::string text = said(run);
  expect_fits(text);
  EXPECT_THAT(text, AllOf(HasSubstr("No ladder was measured."), HasSubstr("No profile of both arms was taken."),
                          HasSubstr("What isn't fused is not recorded."), HasSubstr("The machine's limit was not"),
                          HasSubstr("What compiling takes, or a call saves, was not measured.")));
  EXPECT_THAT(commands(run), Not(::testing::Contains(HasSubstr("--by scope"))));
  for (const Json& odd : {Json{{"cells", {{{"workload", "a"}}}}}, Json{{"cells", {7}}}}) {
    expect_fits(said(odd));
    EXPECT_THAT(said(odd), HasSubstr("Nothing was compared"));
  }
}

TEST(Explanation, FitsOneScreenWhateverTheNames) {
  const std::string hostile = "<b>\"'\x1b[2J\xE2\x80\xAE`|" + std::string(300, 'A') + " 日本 " + std::string(90, 'B');
  Json run = why_run({}, "quick", hostile);
  Json& cell = run["cells"][0];
  for (int i = 0; i < 20; ++i) {
    Json row = cell["profile"]["rows"][1];
    row["name"] = hostile + std::to_string(i);
    row["arms"][1]["fates"][0]["with"] = {hostile, hostile + "x"};
    cell["profile"]["rows"].push_back(row);
    cell["arms"][2]["passes"].back()["refused"].push_back(
        {{"producer", hostile}, {"consumer", hostile}, {"why", hostile + std::to_string(i)}, {"edges", 9}});
    Json rung = cell["ladder"]["rungs"][0];
    rung["cause"] = hostile;
    cell["ladder"]["rungs"].push_back(rung);
  }
  cell["arms"][2]["fused"] = {fused(4e-5, 2e-5, true)};
  cell["arms"][2]["fused"][0]["ops"] = hostile;
  const std::string text = said(run);
  expect_fits(text);
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\xE2\x80\xAE")), HasSubstr("..."),
                          HasSubstr("\nLimit      graph reaches 60 %")));
  const std::string markdown = markdown_explanation(run, reports::Run(run).cells()[0], 1000);
  EXPECT_THAT(markdown, Not(HasSubstr("\x1b")));
  std::istringstream lines_of_markdown(markdown);
  for (std::string line; std::getline(lines_of_markdown, line);) {
    EXPECT_TRUE(line.starts_with("diptych ") || line.find("<b>") == std::string::npos) << "outside of code: " << line;
  }
  EXPECT_EQ(testing::markup_problem(render_html(run)), "");
}

TEST(Explanation, IsTheFirstSectionOfItsPageAndOfNoOther) {
  Json run = why_run({});
  const std::string page = render_html(run);
  EXPECT_EQ(testing::markup_problem(page), "");
  const std::size_t why = page.find("<h2>Why</h2>");
  ASSERT_NE(why, std::string::npos);
  EXPECT_EQ(page.rfind("<section", why), page.find("<section"));
  EXPECT_THAT(page.substr(why, 6000), AllOf(HasSubstr("graph reaches 60 %"), HasSubstr("same kernel"),
                                            HasSubstr("diptych ladder mlp/digits --threads 2")));
  run.erase("why");
  EXPECT_THAT(render_html(run), Not(HasSubstr("<h2>Why</h2>")));
  EXPECT_THAT(markdown_explanation(run, reports::Run(run).cells()[0], 1000),
              AllOf(HasSubstr("## Causes"), HasSubstr("| matmul"), HasSubstr("```\ndiptych ladder mlp/digits")));
}

}  // namespace
}  // namespace diptych::reports
