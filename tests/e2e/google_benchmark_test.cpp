// Google Benchmark's side: its flags behind --, its JSON out and in, and its own script reading ours.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/program.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::json;

TEST(BenchmarkFlags, TheFilterChoosesWorkloads) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"run", "micro", "--arms", "eager", "--metric", "exact", "--",
                                   "--benchmark_filter=dispatch-tape", "--benchmark_color=false"},
                                  folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  ASSERT_THAT(run["cells"], SizeIs(1));
  EXPECT_EQ(run["cells"][0]["workload"], "micro/dispatch-tape");
  EXPECT_EQ(run["plan"]["benchmark_options"], Json({"--benchmark_filter=dispatch-tape", "--benchmark_color=false"}));
}

// A minus in front: all but those.
TEST(BenchmarkFlags, TheFilterCanLeaveOut) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"run", "micro/dispatch", "micro/fusion", "--arms", "eager", "--metric", "exact",
                                   "--", "--benchmark_filter=-fusion"},
                                  folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  ASSERT_THAT(run["cells"], SizeIs(1));
  EXPECT_EQ(run["cells"][0]["workload"], "micro/dispatch");
}

// A run is as large as it says, and its figures go into run.json: such flags are refused, with what to do instead.
TEST(BenchmarkFlags, ThatAHarnessCantHonourAreRefused) {
  TemporaryFolder folder;
  for (const auto& [flag, instead] :
       {std::pair("--benchmark_repetitions=2", "--standard"), std::pair("--benchmark_min_time=3", "--standard"),
        std::pair("--benchmark_out=x.json", "--format google-benchmark"),
        std::pair("--benchmark_out_format=csv", "--format google-benchmark"),
        std::pair("--benchmark_format=json", "--format google-benchmark"),
        std::pair("--benchmark_enable_random_interleaving=true", "interleaved"),
        std::pair("--benchmark_list_tests=true", "diptych list"), std::pair("--gtest_filter=x", "no flag of Google")}) {
    const Outcome outcome = diptych({"run", "micro/dispatch", "--", flag}, folder.path());
    EXPECT_EQ(outcome.exit_code, 1) << flag;
    EXPECT_THAT(outcome.error, AllOf(HasSubstr(flag), HasSubstr(instead)));
  }
  EXPECT_THAT(tree(folder.path()), IsEmpty());
}

/// benchmark.json of a small run, written below `folder`.
fs::path exported(const fs::path& folder, const std::string& out) {
  const Outcome measured = diptych({"run", "micro/dispatch", "--arms", "eager,graph", "--out", out}, folder);
  EXPECT_EQ(measured.exit_code, 0) << measured.error;
  const fs::path run = fs::directory_iterator(folder / out)->path();
  EXPECT_EQ(diptych({"report", run.string(), "--format", "google-benchmark"}, folder).exit_code, 0);
  return run / "benchmark.json";
}

TEST(BenchmarkJson, GoesOutAndComesBackIn) {
  TemporaryFolder folder;
  const fs::path file = exported(folder.path(), "a");
  const Json document = read_json(file);
  ASSERT_THAT(document["benchmarks"], SizeIs(6));  // two arms, three processes
  EXPECT_EQ(document["benchmarks"][0]["name"], "micro/dispatch/eager");
  const Outcome itself = diptych({"compare", file.string(), file.string(), "--json", "same.json"}, folder.path());
  EXPECT_EQ(itself.exit_code, 0) << itself.error;
  const Json rows = read_json(folder.path() / "same.json")["rows"];
  for (const Json& row : rows) {
    EXPECT_EQ(row["ratio"]["estimate"], 1.0);
  }
  // Against the run that it was made from: the same names, and the same times.
  const Outcome origin = diptych(
      {"compare", file.parent_path().string(), file.string(), "--force-time", "--json", "origin.json"}, folder.path());
  EXPECT_EQ(origin.exit_code, 0) << origin.error;
  const Json comparison = read_json(folder.path() / "origin.json");
  EXPECT_THAT(comparison["vanished"], IsEmpty());
}

// compare.py of Debian's libbenchmark-tools, or of Google Benchmark's sources in BENCHMARK_TOOLS.
TEST(BenchmarkJson, IsReadByGoogleBenchmarksOwnScript) {
  const char* named = std::getenv("BENCHMARK_TOOLS");
  const fs::path script = fs::path(named != nullptr ? named : "/usr/share/benchmark") / "compare.py";
  if (!fs::exists(script)) {
    GTEST_SKIP() << "no " << script << " (Debian: libbenchmark-tools)";
  }
  TemporaryFolder folder;
  const Outcome usable = run_command({{"/usr/bin/python3", script.string(), "--help"}, folder.path().string()});
  if (usable.exit_code != 0) {
    GTEST_SKIP() << script << " doesn't run here (Debian: python3-scipy): " << usable.error;
  }
  const std::string a = exported(folder.path(), "a").string();
  const std::string b = exported(folder.path(), "b").string();
  const Outcome outcome =
      run_command({{"/usr/bin/python3", script.string(), "--no-color", "benchmarks", a, b}, folder.path().string()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("micro/dispatch/eager"), HasSubstr("micro/dispatch/graph"),
                                    HasSubstr("micro/dispatch/graph_pvalue")));
  EXPECT_THAT(outcome.error, IsEmpty());
}

}  // namespace
}  // namespace diptych::testing
