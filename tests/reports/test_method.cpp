// Runs that were measured in different ways: what differs is named, and no figure that it bears on is called a
// regression. Each known difference is put into one side of two runs.

#include <functional>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/gate/compare.h"
#include "reports/gate/documents.h"
#include "reports/gate/gate.h"
#include "reports/run/json_access.h"
#include "reports/views/compare_views.h"
#include "tests/reports/sample_run.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::slowed_run;

Json row_of(const Json& comparison, const std::string& arm, const std::string& metric) {
  for (const Json& row : comparison["rows"]) {
    if (row["arm"] == arm && row["metric"] == metric) {
      return row;
    }
  }
  return nullptr;
}

Json planned(Json run, const char* gemm) {
  run["plan"] = {{"verb", "run"}, {"metrics", {"time"}}, {"gemm", gemm}, {"block_seconds", 0.015}};
  return run;
}

TEST(Method, AnotherNumberOfThreadsIsNoImprovement) {
  const Json base = slowed_run(1, 1);
  Json head = slowed_run(0.5, 2);
  head["threads"] = 2;
  for (const auto& [a, b] : {std::pair(base, head), std::pair(head, base)}) {
    const Json comparison = compare_runs(a, b);
    const Json row = row_of(comparison, "graph", "time");
    EXPECT_EQ(row["verdict"], "METHOD CHANGED");
    EXPECT_EQ(row["reason"], "method-changed");
    EXPECT_THAT(row["detail"].get<std::string>(), HasSubstr("threads"));
    EXPECT_TRUE(row["p"].is_null()) << "nothing is tested";
    EXPECT_FALSE(row["ratio"]["low"].is_null()) << "but the change is shown";
    EXPECT_EQ(comparison["summary"]["verdict"], "METHOD CHANGED");
    EXPECT_EQ(row_of(comparison, "graph", "nodes")["verdict"], "EQUIVALENT") << "equal is equal";
    const ComparisonDocument document = comparison;
    EXPECT_THAT(render_comparison(document, {"a", "b"}), AllOf(HasSubstr("METHOD CHANGED: "), HasSubstr("threads ")));
    EXPECT_THAT(render_comparison_markdown(document, {"a", "b"}), HasSubstr("- method changed: threads "));
  }
  EXPECT_EQ(compare_runs(base, head)["method"][0],
            (Json{{"of", ""}, {"name", "threads"}, {"base", "1"}, {"head", "2"}, {"from", "exact"}}));
}

TEST(Method, TheSameDifferenceWithoutAChangedMethodIsARegression) {
  EXPECT_EQ(row_of(compare_runs(slowed_run(1, 1), slowed_run(2, 2)), "graph", "time")["verdict"], "REGRESSED");
}

TEST(Method, WhatBearsOnTimesAloneLeavesCountsToTheirVerdict) {
  const Json base = slowed_run(1, 1);
  Json head = slowed_run(1.5, 2);
  head["pinned"] = {1};
  head["cells"][0]["arms"][2]["exact"]["nodes"] = 99;
  const Json comparison = compare_runs(base, head);
  EXPECT_EQ(row_of(comparison, "graph", "time")["verdict"], "METHOD CHANGED");
  EXPECT_EQ(row_of(comparison, "graph", "nodes")["verdict"], "REGRESSED");
  EXPECT_EQ(comparison["method"][0]["head"], "CPUs 1");
  head["numerics"] = "fast";
  const Json fast = compare_runs(base, head);
  EXPECT_EQ(row_of(fast, "graph", "nodes")["verdict"], "METHOD CHANGED") << "numerics decide what a graph has";
  EXPECT_THAT(row_of(fast, "graph", "nodes")["detail"].get<std::string>(), HasSubstr("numerics exact -> fast"));
}

TEST(Method, FlagsOfThePlanTheBuildAndTheHarnessCount) {
  const Json base = planned(slowed_run(1, 1), "tiles");
  const auto changed = [&](const std::function<void(Json&)>& change) {
    Json head = planned(slowed_run(1.3, 2), "tiles");
    change(head);
    const Json comparison = compare_runs(base, head);
    EXPECT_EQ(row_of(comparison, "graph", "time")["verdict"], "METHOD CHANGED") << comparison["method"].dump();
    return comparison["method"].empty() ? "" : comparison["method"][0]["name"].get<std::string>();
  };
  EXPECT_EQ(changed([](Json& run) { run["plan"]["gemm"] = "openblas"; }), "matrix products");
  EXPECT_EQ(changed([](Json& run) { run["plan"].erase("gemm"); }), "matrix products") << "older files: OpenBLAS";
  EXPECT_EQ(changed([](Json& run) { run["plan"]["veto_losses"] = true; }), "losing kernels left out");
  EXPECT_EQ(changed([](Json& run) { run["plan"]["block_seconds"] = 0.1; }), "length of a block");
  EXPECT_EQ(changed([](Json& run) { run["plan"]["benchmark_options"] = {"--x"}; }), "Google Benchmark's options");
  EXPECT_EQ(changed([](Json& run) { run["cells"][0]["title"] = "batch 128"; }), "workload");
  EXPECT_EQ(changed([](Json& run) {
              for (Json& process : run["cells"][0]["processes"]) {
                process["layouts"] = 4;
              }
            }),
            "layouts of the heap");
}

// The harness fits as many into a process as its time allows.
TEST(Method, TheNumberOfLayoutsIsNoMethod) {
  Json base = slowed_run(1, 1);
  Json head = slowed_run(1.3, 2);
  base["cells"][0]["processes"][0]["layouts"] = 1;
  head["cells"][0]["processes"][0]["layouts"] = 5;
  EXPECT_EQ(row_of(compare_runs(base, head), "graph", "time")["verdict"], "REGRESSED");
}

TEST(Method, SeedsSizesLayoutsAndCommitsAreNoMethod) {
  Json base = planned(slowed_run(1, 1), "tiles");
  base["environment"]["build"] = {{"compiler", "gcc 12"}, {"flags", "-O3"}, {"git_sha", "a"}};
  Json head = planned(slowed_run(1.3, 2), "tiles");
  head["environment"]["build"] = {{"compiler", "gcc 12"}, {"flags", "-O2"}, {"git_sha", "b"}};
  head["seed"] = 77;
  head["plan"]["layout"] = 1;
  head["injected"] = {{"time", 0.3}};
  const Json comparison = compare_runs(base, head);
  EXPECT_EQ(comparison["method"], Json::array());
  EXPECT_EQ(row_of(comparison, "graph", "time")["verdict"], "REGRESSED");
  head["environment"]["build"]["compiler"] = "clang 14";
  EXPECT_EQ(row_of(compare_runs(base, head), "graph", "time")["verdict"], "METHOD CHANGED");
}

TEST(Method, ArmsThatDisagreeStayInvalidAndABusyMachineContaminates) {
  const Json base = slowed_run();
  Json head = slowed_run(1.3, 2);
  head["threads"] = 2;
  Json wrong = head;
  wrong["cells"][0]["validity"] = {{"agree", false}, {"checks", Json::array()}, {"reason", "loss differs"}};
  EXPECT_EQ(row_of(compare_runs(base, wrong), "graph", "time")["verdict"], "INVALID");
  Json busy = head;
  for (Json& process : busy["cells"][0]["processes"]) {
    process["control_drift"] = 0.3;
  }
  EXPECT_EQ(row_of(compare_runs(base, busy), "graph", "time")["verdict"], "CONTAMINATED");
}

// The other rows keep the level of a family without those rows.
TEST(Method, RowsOfAnotherMethodDontWeakenTheOthers) {
  const Json base = testing::analysed_run({{"a"}, {"b"}});
  Json head = testing::analysed_run({{"a"}, {"b"}}, {.seed = 2});
  const double alone = row_of(compare_runs(testing::analysed_run({{"b"}}), testing::analysed_run({{"b"}}, {.seed = 2})),
                              "graph", "time")["mde"];
  const auto mde_of_b = [&](const Json& comparison) {
    for (const Json& row : comparison["rows"]) {
      if (row["workload"] == "b" && row["arm"] == "graph" && row["metric"] == "time") {
        return row["mde"].get<double>();
      }
    }
    return 0.0;
  };
  const double both = mde_of_b(compare_runs(base, head));
  head["cells"][0]["title"] = "another program";
  const double one = mde_of_b(compare_runs(base, head));
  EXPECT_LT(one, both);
  EXPECT_GT(alone, 0);
}

TEST(Method, AGateCannotTell) {
  const Json base = slowed_run(1, 1);
  Json head = slowed_run(1.3, 2);
  head["threads"] = 2;
  const Json comparison = compare_runs(base, head);
  GateSetup setup;
  setup.time_decides = true;
  const Json judged = judge_gate(comparison, nullptr, {}, setup);
  const GateDocument gate = judged;
  EXPECT_EQ(gate.verdict_name(), "CANNOT TELL");
  EXPECT_EQ(gate.exit_code(), gate_cannot_tell);
  EXPECT_THAT(gate.reason(), AllOf(HasSubstr("METHOD CHANGED"), Not(HasSubstr("worse"))));
}

}  // namespace
}  // namespace diptych::reports
