// Arms of other frameworks in the views: their figures beside the engine's, and why one is left out, in every view.

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/analyse.h"
#include "reports/gate/compare.h"
#include "reports/html/html.h"
#include "reports/run/json_access.h"
#include "reports/run/schema.h"
#include "reports/views/markdown.h"
#include "reports/views/peers.h"
#include "reports/views/summary.h"
#include "reports/views/table.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::sample_run;

/// The sample's last arm is another framework's; `why`: the reason if it is left out.
Json with_external_arm(const std::string& why = "") {
  Json run = sample_run({{}}, {.processes = 4});
  for (Json& cell : run["cells"]) {
    Json& arm = cell["arms"].back();
    const std::string old_name = arm["name"];
    arm["name"] = "ort";
    arm["in_ladder"] = false;
    arm["external"] = {{"command", {"diptych_ort_arm", "all"}},
                       {"framework", "ONNX | Runtime <1>"},
                       {"threads", 1},
                       {"overhead_nanoseconds", 50}};
    if (!why.empty()) {
      arm["failed"] = why;
    }
    for (Json& process : cell["processes"]) {
      for (Json& round : process["rounds"]) {
        if (why.empty()) {
          round["seconds"]["ort"] = round["seconds"][old_name];
        }
        round["seconds"].erase(old_name);
        std::erase(round["order"].get_ref<Json::array_t&>(), Json(old_name));
      }
      for (Json& measured : process["arms"]) {
        if (measured["name"] == old_name) {
          measured["name"] = "ort";
          measured.update({{"start_seconds", 0.5}, {"load_seconds", 0.25}, {"protocol_seconds", 3e-5}});
        }
      }
    }
  }
  analyse(run);
  return run;
}

TEST(ExternalArmViews, PeersShowTimesStartsAndVersions) {
  Json run = with_external_arm();
  EXPECT_THAT(validate(run), IsEmpty());
  run["command"] = {"diptych", "peers", "--arm", "mine=python3 my_arm.py"};
  run["environment"]["process"]["tuning_variables"] = {{"OMP_PLACES", "<2>|\n"}, {"OPENBLAS_CORETYPE", "Haswell"}};
  const std::string page = render_peers(run);
  EXPECT_THAT(page, HasSubstr("```\ndiptych peers --arm mine=python3 my_arm.py\n```"));
  EXPECT_THAT(page, HasSubstr("- eager, graph: Diptych "));
  EXPECT_THAT(page, AllOf(HasSubstr("| ort |"), HasSubstr("500 ms"), HasSubstr("250 ms"), HasSubstr("30.0 µs")));
  EXPECT_THAT(page, HasSubstr("ONNX &#124; Runtime"));
  EXPECT_THAT(page, Not(HasSubstr("<1>")));
  EXPECT_THAT(page, HasSubstr("Set in the environment: OMP\\_PLACES=&lt;2&gt;&#124;"));
  EXPECT_THAT(page, Not(HasSubstr("Missing")));
}

TEST(ExternalArmViews, PeersInATerminalAreAlignedAndWhole) {
  const std::string hint = "start: it ended (" + std::string(400, 'x').insert(200, " ") + " apt-get install ort)";
  for (const bool is_out : {false, true}) {
    const Json run = with_external_arm(is_out ? hint : "");
    const std::string table = render_peers_table(run, {false, 100});
    EXPECT_THAT(table, AllOf(Not(HasSubstr("|--")), Not(HasSubstr("# ")), Not(HasSubstr("&#"))));
    std::istringstream lines(table);
    std::string header;
    std::getline(lines, header);
    EXPECT_THAT(header, ::testing::StartsWith("workload"));
    std::string line;
    std::getline(lines, line);
    EXPECT_EQ(line.find_first_not_of('-'), std::string::npos) << line;
    std::getline(lines, line);
    const std::size_t time = header.find("time");
    EXPECT_EQ(line[time - 1], ' ') << line;
    EXPECT_NE(line[time], ' ') << line;  // columns stand below their headings
    EXPECT_EQ(table.find("apt-get install ort)") != std::string::npos, is_out) << table;
    EXPECT_EQ(render_peers(run).find("apt-get install ort") != std::string::npos, is_out);
  }
}

TEST(ExternalArmViews, PeersSayHowTheGraphStandsAgainstEachOfThem) {
  Json run = with_external_arm();
  EXPECT_THAT(render_peers(run), Not(HasSubstr("graph is:"))) << "not in the rounds";
  for (Json& comparison : run["cells"][0]["comparisons"]) {
    if (comparison["arm"] == "ort") {
      comparison["graph_speedup"] = {{"estimate", 1.25}, {"low", 1.1}, {"high", 1.4}, {"level", 0.95}};
    }
  }
  EXPECT_THAT(render_peers(run),
              AllOf(HasSubstr("graph is:\n\n| workload | ort |\n|---|--:|\n"), HasSubstr(" 1.25× [1.10, 1.40] |\n")));
  EXPECT_THAT(render_peers_table(run, {false, 200}),
              AllOf(HasSubstr("graph against it"), HasSubstr("1.25x [1.10, 1.40]")));
}

TEST(ExternalArmViews, TheTerminalHasTheirSpeedUpsAndVerdicts) {
  Json run = with_external_arm();
  for (Json& comparison : run["cells"][0]["comparisons"]) {  // the one of the columns
    comparison["arm"] = comparison["arm"] == "replay" ? Json("graph") : comparison["arm"];
  }
  for (const int width : {80, 200}) {
    const std::string table = render_table(run, {false, width});
    EXPECT_THAT(table, ::testing::ContainsRegex("ort against eager: [0-9.]+x \\[[0-9.]+, [0-9.]+\\], [A-Z]+"));
  }
  EXPECT_THAT(render_table(sample_run()), Not(HasSubstr(" against eager:")));
}

// Counters of each process; the views have their medians, in every place where a workload's own metrics stand.
TEST(ExternalArmViews, WhatTheyCountStandsAmongTheMetrics) {
  Json run = with_external_arm();
  int next = 0;
  for (Json& process : run["cells"][0]["processes"]) {
    for (Json& measured : process["arms"]) {
      if (measured["name"] == "ort") {
        measured["framework_counters"] = {{"graph_breaks", 3}, {"compile_seconds", 0.5}, {"cache_hits", next++}};
      }
    }
  }
  ASSERT_EQ(next, 4);
  analyse(run);
  EXPECT_THAT(validate(run), IsEmpty());
  const Json once = run["cells"][0]["metrics"];
  analyse(run);  // again: replaced, not added
  EXPECT_EQ(run["cells"][0]["metrics"], once);
  const auto median = std::find_if(once.begin(), once.end(), [](const Json& m) { return m["name"] == "cache hits"; });
  ASSERT_NE(median, once.end());
  EXPECT_EQ((*median)["value"], 1.5);
  EXPECT_THAT(render_table(run, {false, 200}),
              AllOf(HasSubstr("graph breaks 3 (ort)"), HasSubstr("compile time 500 ms (ort)")));
  EXPECT_THAT(render_markdown(run), HasSubstr("graph breaks 3 (ort)"));
  EXPECT_THAT(render_html(run), HasSubstr("graph breaks"));
  EXPECT_THAT(render_peers(run), AllOf(HasSubstr("have counted"), HasSubstr("| ort | 1.5 | 500 ms | 3 |")));
  EXPECT_THAT(render_peers_table(run, {false, 120}), HasSubstr("counted by compilers"));
  EXPECT_THAT(render_peers_table(with_external_arm(), {false, 120}), Not(HasSubstr("counted by compilers")));
}

TEST(ExternalArmViews, TheyHaveNoBreakEven) {
  const Json run = with_external_arm();
  for (const Json& comparison : run["cells"][0]["comparisons"]) {
    EXPECT_EQ(comparison["break_even"].is_null(), comparison["arm"] == "ort") << comparison["arm"];
  }
}

TEST(ExternalArmViews, WhyOneIsOutStandsInEveryView) {
  const Json run = with_external_arm("run: it <hangs> | for good");
  EXPECT_THAT(validate(run), IsEmpty());
  const std::string workload = text(run["cells"][0], "workload");
  EXPECT_THAT(failed_arms(run), ElementsAre("ort is INVALID in " + workload + ": run: it <hangs> | for good"));
  for (const Json& comparison : run["cells"][0]["comparisons"]) {
    if (comparison["arm"] == "ort") {
      EXPECT_EQ(comparison["verdict"]["verdict"], "INVALID");
      EXPECT_EQ(comparison["verdict"]["reason"], "arm-failed");
      EXPECT_TRUE(comparison["speedup"].is_null());
    }
  }
  EXPECT_THAT(render_markdown(run), HasSubstr("for good"));
  EXPECT_THAT(render_markdown(run), Not(HasSubstr("<hangs>")));
  const std::string page = render_html(run);
  EXPECT_THAT(page, HasSubstr("it &lt;hangs&gt; | for good"));
  EXPECT_EQ(testing::markup_problem(page), "");
  EXPECT_THAT(render_peers(run), AllOf(HasSubstr("Missing, and why"), HasSubstr("for good")));
}

TEST(ExternalArmViews, ComparingRunsNamesTheFailure) {
  const Json base = with_external_arm();
  const Json head = with_external_arm("it dies");
  const Json rows = compare_runs(base, head)["rows"];
  bool found = false;
  for (const Json& row : rows) {
    if (row["arm"] == "ort" && row["metric"] == "time") {
      EXPECT_EQ(row["verdict"], "INVALID");
      EXPECT_EQ(row["reason"], "arm-failed");
      EXPECT_THAT(row["detail"].get<std::string>(), HasSubstr("it dies"));
      found = true;
    }
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace diptych::reports
