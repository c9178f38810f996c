// Memory and hardware counters in a run, in comparisons and in the gate: shown, and never deciding.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/analyse.h"
#include "reports/analysis/usage.h"
#include "reports/gate/compare.h"
#include "reports/gate/gate.h"
#include "reports/html/html.h"
#include "reports/html/usage.h"
#include "reports/run/json_access.h"
#include "reports/run/schema.h"
#include "reports/views/compare_views.h"
#include "reports/views/gate_views.h"
#include "reports/views/markdown.h"
#include "reports/views/table.h"
#include "reports/views/usage_views.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::sample_run;

constexpr double mebibyte = 1 << 20;

/// Processes of 10, 20, 90, 40, ... MiB for eager: the median of an even count lies between the two in the middle.
Json with_usage(Json run, double scale = 1, bool with_counters = true) {
  for (Json& cell : run["cells"]) {
    int process_index = 0;
    for (Json& process : cell["processes"]) {
      ++process_index;
      process["after"] = Json::array();
      for (Json& arm : process["arms"]) {
        const double step = process_index == 3 ? 9 : process_index;
        arm["memory"] = {{"peak_rss_bytes", scale * 10 * step * mebibyte}, {"page_faults", scale * 0.5}};
        arm["counters"] = {{"calls", 10},
                           {"cycles", nullptr},
                           {"instructions", nullptr},
                           {"cache_misses", nullptr},
                           {"branch_misses", nullptr}};
        if (with_counters) {
          arm["counters"].update({{"cycles", scale * 3000}, {"instructions", 9000}, {"cache_misses", scale * 1.5}});
        } else {
          arm["counters"]["reason"] = "no PMU <here>|";
        }
      }
    }
  }
  analyse(run);
  return run;
}

Json run_of(double scale = 1, bool with_counters = true) {
  return with_usage(sample_run({{}}, {.processes = 4}), scale, with_counters);
}

Json compared(const Json& base, const Json& head) { return compare_runs(base, head); }

TEST(Usage, AnArmHasTheMedianOverProcesses) {
  const Json run = run_of();
  EXPECT_THAT(validate(run), IsEmpty());
  const Json& arm = run["cells"][0]["arms"][1];
  // 10, 20, 90, 40: between 20 and 40.
  EXPECT_EQ(arm["memory"], Json({{"peak_rss_bytes", 30 * mebibyte}, {"page_faults", 0.5}}));
  EXPECT_EQ(arm["counters"],
            Json({{"cycles", 3000.0}, {"instructions", 9000.0}, {"cache_misses", 1.5}, {"branch_misses", nullptr}}));
  Json again = run;
  analyse(again);
  EXPECT_EQ(again, run);
}

TEST(Usage, OldRunsStayAsTheyWere) {
  Json run = sample_run();
  analyse(run);
  EXPECT_FALSE(run["cells"][0]["arms"][0].contains("memory"));
  EXPECT_FALSE(run["cells"][0]["arms"][0].contains("counters"));
  EXPECT_EQ(render_usage(run), "");
  EXPECT_EQ(markdown_usage(run), "");
  EXPECT_EQ(html_usage(run["cells"][0]), "");
  EXPECT_THAT(compared(run, run)["advisory"], IsEmpty());
}

TEST(Usage, CountersAreShownWhereThereAreSome) {
  const Json run = run_of();
  EXPECT_THAT(render_table(run, {false, 120}), AllOf(HasSubstr("Hardware counters, per call"), HasSubstr("9,000")));
  EXPECT_THAT(render_markdown(run),
              AllOf(HasSubstr("| mlp/digits | graph | 30.0 MiB | 0.500 | 3,000 | 9,000 | 1.50 | - |"),
                    Not(HasSubstr("No hardware counters"))));
  const std::string page = render_html(run);
  EXPECT_EQ(testing::markup_problem(page), "");
  EXPECT_THAT(page, AllOf(HasSubstr("Memory and counters"), HasSubstr("9,000")));
}

TEST(Usage, WhereThereAreNoneOneLineSaysWhy) {
  const Json run = run_of(1, false);
  EXPECT_THAT(validate(run), IsEmpty());
  EXPECT_EQ(render_usage(run, {false, 120}), "No hardware counters: no PMU <here>|\n");
  EXPECT_THAT(render_markdown(run), HasSubstr("No hardware counters: no PMU &lt;here&gt;&#124;"));
  const std::string page = render_html(run);
  EXPECT_EQ(testing::markup_problem(page), "");
  EXPECT_THAT(page, HasSubstr("No hardware counters: no PMU &lt;here&gt;|"));
}

TEST(Advisory, RowsStandApartAndHaveNoVerdict) {
  const Json comparison = compared(run_of(), run_of(1.5));
  // Three arms, five metrics that both have.
  ASSERT_EQ(comparison["advisory"].size(), 15u);
  for (const Json& row : comparison["advisory"]) {
    EXPECT_EQ(row["tier"], "advisory");
    EXPECT_FALSE(row.contains("verdict"));
    EXPECT_DOUBLE_EQ(row["ratio"]["estimate"].get<double>(), row["metric"] == "hardware_instructions" ? 1 : 1.5) << row;
  }
  for (const Json& row : comparison["rows"]) {
    EXPECT_NE(row["tier"], "advisory");
  }
  const std::string shown = render_comparison(comparison, {"a", "b"});
  EXPECT_THAT(shown, AllOf(HasSubstr("30.0 MiB -> 45.0 MiB"), HasSubstr("+50.0 %"), HasSubstr("and 5 more advisory")));
  EXPECT_THAT(render_comparison_markdown(comparison, {"a", "b"}),
              HasSubstr("| mlp/digits/eager | peak\\_rss\\_bytes | 30.0 MiB -&gt; 45.0 MiB | +50.0 % |"));
}

TEST(Advisory, APeakNeedsTheSameHistoryOfTheProcess) {
  Json head = run_of();
  for (Json& process : head["cells"][0]["processes"]) {
    process["after"] = {"vit/tiny"};
  }
  const Json comparison = compared(run_of(), head);
  EXPECT_EQ(comparison["advisory"].size(), 12u);
  for (const Json& row : comparison["advisory"]) {
    EXPECT_NE(row["metric"], "peak_rss_bytes");
  }
}

TEST(Advisory, CountersOfAnotherMachineDoNotCompare) {
  Json base = run_of();
  Json head = run_of();
  base["environment"]["cpu"]["model"] = "One";
  head["environment"]["cpu"]["model"] = "Other";
  const Json comparison = compared(base, head);
  for (const Json& row : comparison["advisory"]) {
    EXPECT_THAT(row["metric"].get<std::string>(), ::testing::AnyOf("peak_rss_bytes", "page_faults"));
  }
}

TEST(Advisory, FromNothingHasNoRatio) {
  Json base = run_of();
  for (Json& process : base["cells"][0]["processes"]) {
    for (Json& arm : process["arms"]) {
      arm["memory"]["page_faults"] = 0;
    }
  }
  const Json comparison = compared(base, run_of());
  for (const Json& row : comparison["advisory"]) {
    EXPECT_EQ(row["ratio"].is_null(), row["metric"] == "page_faults");
  }
}

// A hundred times the memory: shown first, and no gate fails over it.
TEST(Advisory, NeverDecidesAGate) {
  CompareOptions options;
  options.tiers = {Tier::exact};
  const Json gate = judge_gate(compare_runs(run_of(), run_of(100), options), nullptr, {}, {});
  EXPECT_EQ(gate["verdict"], "PASS");
  EXPECT_EQ(gate["exit_code"], 0);
  EXPECT_EQ(gate["advisory"].size(), 15u);
  const std::string markdown = render_gate_markdown(gate);
  EXPECT_THAT(markdown, AllOf(HasSubstr("advisory, decides nothing"), HasSubstr("and 10 more advisory rows")));
  std::size_t lines = 0;
  for (std::size_t at = markdown.find("\n| mlp"); at != std::string::npos; at = markdown.find("\n| mlp", at + 1)) {
    ++lines;
  }
  EXPECT_LE(lines, 25u);
  EXPECT_THAT(render_junit(gate), Not(HasSubstr("peak_rss")));
  // Alone they are no comparison.
  options.tiers = {};
  EXPECT_EQ(judge_gate(compare_runs(run_of(), run_of(), options), nullptr, {}, {})["exit_code"], 3);
}

}  // namespace
}  // namespace diptych::reports
