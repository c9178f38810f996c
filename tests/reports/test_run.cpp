// The typed view of a run file: what is there, and what isn't.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/runtime/exact_metrics.h"
#include "reports/assets.h"
#include "reports/run/run.h"
#include "tests/reports/sample_run.h"

namespace diptych::reports {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

TEST(TypedRun, ReadsWhatIsThere) {
  const Json run = {{"name", "a"},
                    {"plan", {{"metrics", {"exact"}}}},
                    {"cells",
                     {{{"workload", "w"},
                       {"arms", {{{"name", "eager"}}, {{"name", "mine"}, {"exact", {{"nodes", 3}}}, {"ulp", 2}}}},
                       {"comparisons", {{{"arm", "graph"}}, {{"arm", "mine"}, {"speedup", {{"estimate", 2.0}}}}}}}}}};
  const reports::Run typed(run);
  EXPECT_EQ(typed.name(), "a");
  EXPECT_FALSE(typed.is_timed());
  ASSERT_EQ(typed.cells().size(), 1U);
  const Cell cell = typed.cell("w");
  EXPECT_EQ(cell.arm("mine").exact("nodes"), 3);
  EXPECT_EQ(cell.arm("mine").ulp(), 2);
  EXPECT_EQ(cell.main_comparison().arm(), "graph");
  EXPECT_EQ(cell.comparison("mine").speedup()->value, 2);
  EXPECT_FALSE(typed.cell("other"));
  EXPECT_FALSE(cell.arm("other"));
}

TEST(TypedRun, AnswersNothingWhereThereIsNoneOrAnotherType) {
  for (const Json& run : {Json(), Json(3), Json::array({1}), Json{{"cells", 3}}, Json{{"cells", {{"arms", "x"}}}}}) {
    const reports::Run typed(run);
    EXPECT_EQ(typed.name(), "");
    EXPECT_EQ(typed.threads(), std::nullopt);
    EXPECT_THAT(typed.command(), IsEmpty());
    EXPECT_TRUE(typed.is_timed());
    EXPECT_EQ(typed.cells().size(), 0U);
    EXPECT_FALSE(typed.cell("w").arm("eager").seconds());
    EXPECT_FALSE(typed.cell("w").main_comparison().verdict().verdict());
    EXPECT_EQ(typed.cell("w").rungs().size(), 0U);
  }
  const Json odd = {{"cells", {7, {{"arms", {nullptr, {{"name", 3}, {"seconds", {{"estimate", "fast"}}}}}}}}}};
  for (const Cell cell : reports::Run(odd).cells()) {
    for (const Arm arm : cell.arms()) {
      EXPECT_EQ(arm.name(), "");
      EXPECT_EQ(arm.seconds(), std::nullopt);
    }
  }
  EXPECT_THAT(reports::Run(Json{{"command", {"diptych", 3, "run"}}}).command(), ElementsAre("diptych", "", "run"));
}

TEST(ExactMetrics, AreThoseOfTheSchema) {
  const Json schema = Json::parse(assets::run_schema());
  std::vector<std::string> required = schema["definitions"]["arm"]["properties"]["exact"]["required"];
  std::vector<std::string> names;
  for (const runtime::ExactMetric& metric : runtime::exact_metrics()) {
    names.emplace_back(metric.name);
  }
  EXPECT_THAT(names, UnorderedElementsAreArray(required));
}

}  // namespace
}  // namespace diptych::reports
