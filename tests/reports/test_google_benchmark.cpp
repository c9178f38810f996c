// Files as Google Benchmark writes them: compared with each other and with runs, and refused where they make no sense.

#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/gate/compare.h"
#include "reports/run/google_benchmark.h"
#include "reports/run/json_access.h"
#include "reports/views/compare_views.h"
#include "tests/reports/compared.h"
#include "tests/reports/sample_run.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::refusal;
using testing::slowed_run;

/// As version 1.7 writes it: five repetitions, then their aggregates.
Json benchmarks(double factor = 1, const std::string& host = "here") {
  Json list = Json::array();
  for (int i = 0; i < 5; ++i) {
    list.push_back({{"name", "BM_Copy/64"},
                    {"run_name", "BM_Copy/64"},
                    {"run_type", "iteration"},
                    {"repetitions", 5},
                    {"repetition_index", i},
                    {"threads", 1},
                    {"iterations", 1000},
                    {"real_time", factor * (20 + 0.05 * i)},
                    {"cpu_time", 20.0},
                    {"time_unit", "us"}});
  }
  list.push_back({{"name", "BM_Copy/64_mean"},
                  {"run_name", "BM_Copy/64"},
                  {"run_type", "aggregate"},
                  {"aggregate_name", "mean"},
                  {"real_time", 999.0},
                  {"cpu_time", 20.0},
                  {"time_unit", "us"}});
  list.push_back({{"name", "BM_Copy/64_cv"},
                  {"run_name", "BM_Copy/64"},
                  {"run_type", "aggregate"},
                  {"aggregate_name", "cv"},
                  {"real_time", 0.0},
                  {"cpu_time", 0.0},
                  {"time_unit", "us"}});
  return {{"context", {{"host_name", host}, {"num_cpus", 2}}}, {"benchmarks", list}};
}

TEST(GoogleBenchmark, RepetitionsAreSamplesAndAggregatesAreNone) {
  const Json comparison = compare_runs(benchmarks(), benchmarks(1.2));
  ASSERT_EQ(comparison["rows"].size(), 1u);
  const Json& row = comparison["rows"][0];
  EXPECT_EQ(row["workload"], "BM_Copy/64");
  EXPECT_EQ(row["verdict"], "REGRESSED");
  EXPECT_NEAR(row["ratio"]["estimate"].get<double>(), 1.2, 1e-12);
  EXPECT_NEAR(row["base"].get<double>(), 20.1e-6, 1e-8);
  EXPECT_THAT(comparison["notes"].dump(), HasSubstr("share a process"));
}

TEST(GoogleBenchmark, UnitsHostsAndErrors) {
  Json in_ns = benchmarks();
  for (Json& benchmark : in_ns["benchmarks"]) {
    benchmark["time_unit"] = "ns";
    benchmark["real_time"] = 1000 * benchmark["real_time"].get<double>();
  }
  EXPECT_EQ(compare_runs(benchmarks(), in_ns)["rows"][0]["verdict"], "EQUIVALENT");
  EXPECT_EQ(compare_runs(benchmarks(), benchmarks(1, "there"))["rows"][0]["reason"], "machines-differ");
  Json broken = benchmarks();
  broken["benchmarks"][1]["error_occurred"] = true;
  broken["benchmarks"][1]["error_message"] = "no file";
  EXPECT_EQ(compare_runs(benchmarks(), broken)["rows"][0]["reason"], "arms-disagree");
  EXPECT_THAT(compare_runs(benchmarks(), broken)["rows"][0]["detail"].get<std::string>(), HasSubstr("no file"));
  Json skipped = benchmarks();
  skipped["benchmarks"][1]["skipped"] = "SKIPPED_WITH_ERROR";
  EXPECT_EQ(compare_runs(benchmarks(), skipped)["rows"][0]["verdict"], "INVALID");
}

/// The times in a text: what a terminal shows of a comparison.
std::string shown(const Json& base, const Json& head) {
  return render_comparison(compare_runs(base, head), {"a.json", "b.json"});
}

/// As --benchmark_report_aggregates_only writes it.
Json aggregates_alone(Json document) {
  Json& list = document["benchmarks"];
  list.erase(list.begin(), list.begin() + 5);
  list[0]["real_time"] = 20.2;
  list.push_back(list[0]);
  list.back()["name"] = "BM_Copy/64_BigO";
  list.back()["aggregate_name"] = "BigO";
  list.back()["run_name"] = "BM_Copy";
  return document;
}

TEST(GoogleBenchmark, AggregatesAloneAreNamedAsSuch) {
  const Json alone = aggregates_alone(benchmarks());
  for (const auto& [base, head, who] :
       {std::tuple(alone, alone, "both sides have"), std::tuple(benchmarks(), alone, "the head has"),
        std::tuple(alone, benchmarks(), "the base has")}) {
    const Json comparison = compare_runs(base, head);
    ASSERT_EQ(comparison["rows"].size(), 1u) << "a fit of complexity is no benchmark";
    EXPECT_EQ(comparison["rows"][0]["verdict"], "INVALID");
    EXPECT_EQ(comparison["rows"][0]["reason"], "aggregates-only");
    EXPECT_NEAR(comparison["rows"][0]["base"].get<double>(), 20.15e-6, 0.06e-6);
    EXPECT_THAT(shown(base, head), AllOf(HasSubstr(who), HasSubstr("without --benchmark_report_aggregates_only")));
  }
  Json old = alone;  // before version 1.5
  for (Json& benchmark : old["benchmarks"]) {
    benchmark.erase("run_type");
    benchmark.erase("run_name");
    benchmark.erase("aggregate_name");
  }
  EXPECT_EQ(compare_runs(old, alone)["rows"][0]["reason"], "aggregates-only");
}

TEST(GoogleBenchmark, WhyNothingIsJudgedStandsInTheText) {
  EXPECT_THAT(shown(benchmarks(), benchmarks(1, "there")),
              AllOf(HasSubstr("benchmark.host_name: here / there"), HasSubstr("--force-time compares anyway")));
  Json once = benchmarks();
  once["benchmarks"].erase(once["benchmarks"].begin() + 1, once["benchmarks"].end());
  EXPECT_THAT(shown(once, once),
              AllOf(HasSubstr("INCONCLUSIVE (1 row): one repetition"), HasSubstr("--benchmark_repetitions=10")));
  Json nowhere = benchmarks();
  nowhere.erase("context");
  EXPECT_THAT(shown(nowhere, nowhere), HasSubstr("don't say whether they come from one machine; --force-time"));
}

TEST(GoogleBenchmark, AnotherBuildOfTheLibraryIsAnotherMethod) {
  Json debug = benchmarks(1.2);
  debug["context"]["library_build_type"] = "debug";
  Json release = benchmarks();
  release["context"]["library_build_type"] = "release";
  const Json comparison = compare_runs(release, debug);
  EXPECT_EQ(comparison["rows"][0]["verdict"], "METHOD CHANGED");
  EXPECT_THAT(shown(release, debug), HasSubstr("Google Benchmark's build type release -> debug"));
  EXPECT_EQ(compare_runs(release, release)["rows"][0]["verdict"], "EQUIVALENT");
  EXPECT_EQ(compare_runs(benchmarks(), debug)["rows"][0]["verdict"], "REGRESSED") << "one of them doesn't say it";
  Json scaling = benchmarks();
  scaling["context"]["cpu_scaling_enabled"] = true;
  Json fixed = benchmarks();
  fixed["context"]["cpu_scaling_enabled"] = false;
  EXPECT_EQ(compare_runs(scaling, fixed)["rows"][0]["verdict"], "METHOD CHANGED");
}

TEST(GoogleBenchmark, BrokenTimesAreRefusedByName) {
  for (const Json& bad :
       {Json(0.0), Json(-3.0), Json("NaN"), Json(nullptr), Json(5e-324), Json(1e-10), Json(1.7e308), Json(1e16)}) {
    Json broken = benchmarks();
    broken["benchmarks"][2]["real_time"] = bad;
    EXPECT_THAT(refusal(benchmarks(), broken), HasSubstr("BM_Copy/64"));
  }
  Json unit = benchmarks();
  unit["benchmarks"][0]["time_unit"] = "fortnight";
  EXPECT_THAT(refusal(unit, unit), HasSubstr("fortnight"));
  EXPECT_THAT(refusal(Json{{"benchmarks", 3}}, benchmarks()), HasSubstr("no list"));
  Json nameless = benchmarks();
  nameless["benchmarks"][0].erase("name");
  nameless["benchmarks"][0].erase("run_name");
  EXPECT_THAT(refusal(nameless, nameless), HasSubstr("without a name"));
}

TEST(GoogleBenchmark, OldFilesWithoutRunType) {
  Json old = benchmarks();
  for (Json& benchmark : old["benchmarks"]) {
    benchmark.erase("run_type");
    benchmark.erase("run_name");
  }
  const Json comparison = compare_runs(old, old);
  ASSERT_EQ(comparison["rows"].size(), 1u);
  EXPECT_EQ(comparison["rows"][0]["verdict"], "EQUIVALENT");
}

TEST(GoogleBenchmark, BareNaNBecomesAName) {
  EXPECT_EQ(quote_non_finite(R"({"a": NaN, "b": -Infinity, "NaN": "NaN \" NaN"})"),
            R"({"a": "NaN", "b": "-Infinity", "NaN": "NaN \" NaN"})");
  EXPECT_EQ(quote_non_finite("\"unterminated NaN \\"), "\"unterminated NaN \\");
}

TEST(GoogleBenchmark, AnExportedRunComparesWithItself) {
  const Json run = slowed_run();
  const Json exported = to_google_benchmark(run);
  EXPECT_EQ(exported["benchmarks"].size(), 3u * 8u);
  const Json& first = exported["benchmarks"][0];
  EXPECT_EQ(first["name"], "mlp/digits/eager");
  EXPECT_EQ(first["run_type"], "iteration");
  EXPECT_TRUE(first["iterations"].is_number_integer());
  EXPECT_NEAR(first["real_time"].get<double>(), 1e5, 1e4);
  EXPECT_TRUE(is_google_benchmark(exported));
  const Json across = compare_runs(run, exported);
  EXPECT_EQ(across["rows"].size(), 3u);
  EXPECT_EQ(across["summary"]["verdict"], "EQUIVALENT") << across.dump(1);
  EXPECT_NEAR(across["rows"][0]["ratio"]["estimate"].get<double>(), 1, 1e-12);
}

}  // namespace
}  // namespace diptych::reports
