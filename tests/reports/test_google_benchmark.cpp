// Files as Google Benchmark writes them: compared with each other and with runs, and refused where they make no sense.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/gate/compare.h"
#include "reports/run/google_benchmark.h"
#include "reports/run/json_access.h"
#include "tests/reports/compared.h"
#include "tests/reports/sample_run.h"

namespace diptych::reports {
namespace {

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

TEST(GoogleBenchmark, BrokenTimesAreRefusedByName) {
  for (const Json& bad : {Json(0.0), Json(-3.0), Json("NaN"), Json(nullptr)}) {
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
