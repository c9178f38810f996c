// Two runs on one page: what it says of known changes, and names that are chosen by others.

#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/gate/compare.h"
#include "reports/html/compare_page.h"
#include "reports/run/json_access.h"
#include "reports/views/compare_sentences.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::slowed_run;
using ::testing::StartsWith;

std::string page_of(const Json& base, const Json& head) {
  const Json comparison = compare_runs(base, head);
  const std::string page = render_compare_page(comparison, base, head, {"out/a", "out/b"});
  EXPECT_EQ(testing::markup_problem(page), "");
  return page;
}

std::string headline_of(const Json& base, const Json& head) {
  const Json comparison = compare_runs(base, head);
  return comparison_headline(comparison);
}

std::string first_command(const Json& base, const Json& head) {
  const Json comparison = compare_runs(base, head);
  const auto next = comparison_next(comparison, base, {"out/a", "out/b"});
  return next.empty() ? "" : next.front().command;
}

TEST(ComparePage, TheSentenceSaysWhatChanged) {
  const Json base = slowed_run(1, 1);
  EXPECT_THAT(headline_of(base, base), StartsWith("Nothing changed: all "));
  EXPECT_THAT(headline_of(base, slowed_run(2, 2)),
              AllOf(HasSubstr("3 are worse, most: mlp/digits/"), HasSubstr("time +")));
  EXPECT_THAT(headline_of(base, slowed_run(0.5, 2)), HasSubstr("3 are better, most: mlp/digits/"));
  Json elsewhere = base;
  elsewhere["cells"][0]["workload"] = "another";
  EXPECT_EQ(headline_of(base, elsewhere), "Nothing can be compared: the two runs have no cell in common");
  Json threads = slowed_run(0.5, 2);
  threads["threads"] = 2;
  EXPECT_THAT(headline_of(base, threads),
              AllOf(HasSubstr("3 differ with the method, which changed"), Not(HasSubstr("better"))));
  Json quick = base;
  quick["size"]["name"] = "quick";
  EXPECT_THAT(headline_of(base, quick), HasSubstr("3 are undecided"));
}

TEST(ComparePage, TheNextCommandFollowsFromIt) {
  const Json base = slowed_run(1, 1);
  EXPECT_EQ(first_command(base, base), "");
  EXPECT_EQ(first_command(base, slowed_run(2, 2)), "diptych why mlp/digits");
  Json threads = slowed_run(0.5, 2);
  threads["threads"] = 2;
  EXPECT_EQ(first_command(base, threads), "diptych run mlp/digits --seed 1") << "as the base was measured";
  Json machine = base;
  machine["environment"]["cpu"]["model"] = "Another CPU";
  EXPECT_EQ(first_command(base, machine), "diptych report out/a out/b --by machine");
  Json quick = base;
  quick["size"]["name"] = "quick";
  EXPECT_EQ(first_command(base, quick), "diptych run mlp/digits --standard");
}

TEST(ComparePage, HasEveryArmAndRungAndTheEnvironment) {
  const Json base = slowed_run(1, 1);
  Json head = slowed_run(2, 2);
  head["environment"]["cpu"]["cores"] = 4;
  const std::string page = page_of(base, head);
  for (const char* part : {"Arm by arm", "Rung by rung", "REGRESSED", "cpu.cores", "What to do next", "default-src"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_LT(page.find("What to do next"), page.find("Figures by size of change"));
  EXPECT_THAT(page, HasSubstr("diptych why mlp/digits</code> records it")) << "no ops were recorded";
}

TEST(ComparePage, JoinsTheOpsOfBothProfiles) {
  const auto profiled = [](Json run, double seconds) {
    Json& profile = run["cells"][0]["profile"];
    profile = {{"by", "op"}, {"steps", 3}, {"arms", Json::array()}, {"rows", Json::array()}};
    for (const auto& [name, graph] : {std::pair("matmul", seconds), std::pair("relu", 1e-6)}) {
      profile["rows"].push_back(
          {{"name", name},
           {"kind", "ops"},
           {"arms", {{{"name", "eager"}, {"seconds", 9e-6}}, {{"name", "graph"}, {"seconds", graph}}}}});
    }
    return run;
  };
  const std::string page = page_of(profiled(slowed_run(1, 1), 4e-6), profiled(slowed_run(1, 2), 7e-6));
  EXPECT_THAT(page, HasSubstr("+3.00 µs")) << "of matmul in the graph";
  EXPECT_LT(page.find(">matmul<"), page.find(">relu<")) << "what moved most comes first";
}

TEST(ComparePage, HostileNamesStayText) {
  for (const std::string& name : testing::hostile_names()) {
    testing::SampleCell cell;
    cell.workload = name;
    cell.arms = {"eager", name, "graph"};
    const Json base = testing::analysed_run({cell});
    Json head = testing::analysed_run({cell}, {.seed = 2});
    head["numerics"] = name;
    head["environment"][name] = {{name, name}};
    head["cells"][0]["title"] = name;
    const Json comparison = compare_runs(base, head);
    const std::string page = render_compare_page(comparison, base, head, {name, name});
    EXPECT_EQ(testing::markup_problem(page), "");
    const std::string visible = page.substr(0, page.find("<script"));
    EXPECT_THAT(visible, Not(HasSubstr(std::string(2000, 'A')))) << "names are shortened";
    EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
    EXPECT_THAT(page, Not(HasSubstr("href=")));
    for (const Suggestion& next : comparison_next(comparison, base, {name, name})) {
      EXPECT_EQ(testing::text_problem(next.command), "");
    }
  }
}

}  // namespace
}  // namespace diptych::reports
