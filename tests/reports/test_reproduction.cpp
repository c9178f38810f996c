// Views of counts, and what stands behind one number.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/analysis/analyse.h"
#include "reports/html/html.h"
#include "reports/run/schema.h"
#include "reports/views/counts.h"
#include "reports/views/markdown.h"
#include "reports/views/reproduction.h"
#include "reports/views/table.h"
#include "tests/reports/sample_run.h"

namespace diptych::reports {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::sample_run;

/// A run of exact metrics alone, with instructions of eager and graph.
json counted_run() {
  json run = sample_run();
  run["plan"] = {{"verb", "run"},
                 {"workloads", {"mlp/digits"}},
                 {"arms", {"eager", "replay", "graph"}},
                 {"default_arms", true},
                 {"shuffle_order", false},
                 {"metrics", {"exact", "instructions"}},
                 {"block_seconds", 0.015},
                 {"benchmark_options", json::array()}};
  json& cell = run["cells"][0];
  cell["processes"] = json::array();
  cell["arms"][0]["instructions"] = {{"value", 3000000.4}, {"isa", "avx2"}, {"calls", 3}, {"tool", "callgrind"}};
  cell["arms"][1]["instructions"] = {{"value", nullptr}, {"reason", "valgrind is not installed"}};
  cell["arms"][2]["instructions"] = {{"value", 1500000}, {"isa", "avx2"}, {"calls", 3}, {"tool", "callgrind"}};
  analyse(run);
  return run;
}

TEST(Counts, AreShownInsteadOfTimes) {
  const json run = counted_run();
  EXPECT_THAT(validate(run), IsEmpty());
  EXPECT_THAT(run["cells"][0]["comparisons"], IsEmpty());
  for (const std::string& view : {render_table(run), render_markdown(run)}) {
    EXPECT_THAT(view, AllOf(HasSubstr("counted, not timed"), HasSubstr("3,000,000"), HasSubstr("1,500,000"),
                            HasSubstr("50 %"), Not(HasSubstr("INVALID")), Not(HasSubstr("rounds"))));
  }
  const std::string page = render_html(run, {});
  EXPECT_THAT(page, AllOf(HasSubstr("counted, not timed"), HasSubstr("1,500,000"), Not(HasSubstr("INVALID"))));
}

TEST(Counts, OfArmsThatDisagreeAreNotShown) {
  json run = counted_run();
  run["cells"][0]["validity"]["agree"] = false;
  run["cells"][0]["validity"]["reason"] = "output 0 differs \x1b[31m";
  analyse(run);
  const std::string view = render_table(run);
  EXPECT_THAT(view, AllOf(HasSubstr("INVALID, output 0 differs \\x1b[31m"), Not(HasSubstr("1,500,000")),
                          Not(HasSubstr("counted, not timed"))));
}

TEST(Counts, JoinTheTimesWhereInstructionsWereCounted) {
  json run = sample_run();
  analyse(run);
  EXPECT_FALSE(shows_counts(run));
  run["cells"][0]["arms"][0]["instructions"] = {{"value", 1234567}};
  EXPECT_TRUE(shows_counts(run));
  EXPECT_THAT(render_table(run), AllOf(HasSubstr("1,234,567"), HasSubstr("speedup")));
}

TEST(Counts, ASlowdownOnPurposeIsSaidInEveryView) {
  json run = sample_run();
  run["injected"] = {{"time", 0.05}, {"instructions", 0}, {"arms", json::array()}};
  analyse(run);
  EXPECT_THAT(validate(run), IsEmpty());
  for (const std::string& view : {render_table(run), render_markdown(run), render_html(run, {})}) {
    EXPECT_THAT(view, HasSubstr("on purpose"));
  }
}

TEST(Reproduction, CellsByNameWithTheNearest) {
  const json run = sample_run();
  EXPECT_EQ(cell_of(run, "mlp/digits").workload(), "mlp/digits");
  try {
    cell_of(run, "mlp/digts");
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("no cell 'mlp/digts'"), HasSubstr("'mlp/digits'")));
  }
}

TEST(Reproduction, SaysBuildSeedsAndDifferences) {
  json run = sample_run();
  run["environment"] = {{"cpu", {{"model", "One \x1b[31m"}}}, {"build", {{"git_sha", "abc"}, {"sha256", "00ff"}}}};
  analyse(run);
  const json& cell = run["cells"][0];
  const std::string same = describe_number(run, cell, "", "diptych run x", run["environment"]);
  EXPECT_THAT(same, AllOf(HasSubstr("diptych run x"), HasSubstr("revision abc, SHA-256 00ff"), HasSubstr("same build"),
                          HasSubstr(cell["processes"][7]["seed"].dump()), HasSubstr("eager: "), HasSubstr("replay: ")));
  const json here = {{"cpu", {{"model", "Two"}}}, {"build", {{"git_sha", "abd"}, {"sha256", "00fe"}}}};
  const std::string other = describe_number(run, cell, "graph", "diptych run x", here);
  EXPECT_THAT(other, AllOf(HasSubstr("cpu.model: One \\x1b[31m -> Two"), HasSubstr("build.sha256: 00ff -> 00fe"),
                           HasSubstr("graph: "), Not(HasSubstr("replay: ")), Not(HasSubstr("\x1b"))));
  run.erase("environment");
  EXPECT_THAT(describe_number(run, cell, "", "x", here), HasSubstr("revision not recorded"));
}

TEST(Reproduction, SaysHowToGetTheRecordedProgram) {
  json run = sample_run();
  analyse(run);
  const json here = {{"build", {{"git_sha", "abd"}, {"sha256", "00fe"}}}};
  const auto said = [&](const json& build) {
    run["environment"] = {{"build", build}};
    return describe_number(run, run["cells"][0], "", "x", here);
  };
  EXPECT_THAT(said({{"git_sha", "abc"}, {"git_dirty", false}, {"sha256", "00ff"}}),
              AllOf(HasSubstr("revision abc, SHA"), HasSubstr("rebuild    scripts/reproduce RUN.json")));
  EXPECT_THAT(said({{"git_sha", "abc"}, {"git_dirty", true}, {"sha256", "00ff"}}),
              AllOf(HasSubstr("revision abc with changes that were not committed"), HasSubstr("not possible")));
  EXPECT_THAT(said({{"git_sha", "abd"}, {"sha256", "00fe"}}), Not(HasSubstr("rebuild  "))) << "it is this one";
  EXPECT_THAT(said({{"git_sha", nullptr}, {"reasons", {{"git_sha", "an archive \x1b"}}}}),
              AllOf(HasSubstr("revision not recorded (an archive \\x1b)"), Not(HasSubstr("rebuild  "))));
}

/// A cell with one arm, with these times.
json timed_cell(const json& seconds, int nodes = 5) {
  return {{"arms", {{{"name", "graph"}, {"seconds", seconds}, {"exact", {{"nodes", nodes}}}}}}};
}

TEST(Reproduction, TimesComeOutAgainIfTheirIntervalsMeet) {
  const auto estimate = [](double low, double high) {
    return json{{"estimate", (low + high) / 2}, {"low", low}, {"high", high}, {"level", 0.95}};
  };
  const json cell = timed_cell(estimate(1.0, 2.0));
  EXPECT_THAT(describe_repetition(cell, timed_cell(estimate(1.9, 3.0)), ""), HasSubstr("yes"));
  EXPECT_THAT(describe_repetition(cell, timed_cell(estimate(2.1, 3.0)), ""), HasSubstr("don't overlap"));
  EXPECT_THAT(describe_repetition(cell, timed_cell(estimate(0.1, 0.9)), ""), HasSubstr("don't overlap"));
  EXPECT_EQ(describe_repetition(cell, cell, "replay"), "");
  EXPECT_THAT(describe_repetition(timed_cell(nullptr), timed_cell(nullptr), ""), HasSubstr("counts are equal"));
  EXPECT_THAT(describe_repetition(timed_cell(nullptr), timed_cell(nullptr, 6), ""), HasSubstr("nodes 5 -> 6"));
}

}  // namespace
}  // namespace diptych::reports
