// Damaged documents in `compare`, `gate` and `calibrate`: each is refused with an Error, or gives one of the existing
// verdicts and views of it. Nothing crashes, hangs, or throws anything but Error, and damage never passes.

#include <set>

#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/analysis/analyse.h"
#include "reports/gate/calibration.h"
#include "reports/gate/compare.h"
#include "reports/gate/gate.h"
#include "reports/run/google_benchmark.h"
#include "reports/run/json_access.h"
#include "reports/run/run_file.h"
#include "reports/views/compare_views.h"
#include "reports/views/gate_views.h"
#include "tests/reports/json_mutator.h"
#include "tests/support/places.h"

namespace diptych::reports {
namespace {

namespace fs = std::filesystem;
using testing::fuzz_times;
using testing::JsonMutator;

/// A run with everything that this version writes.
Json good_run() {
  Json run = Json::parse(
      testing::read_whole(fs::path(diptych::testing::places::source()) / "tests/reports/golden" / "complete.json"));
  for (Json& cell : run["cells"]) {
    for (Json& process : cell["processes"]) {
      process["after"] = {"mlp/digits"};
      for (Json& arm : process["arms"]) {
        arm["memory"] = {{"peak_rss_bytes", 1e8}, {"page_faults", 0.5}};
        arm["counters"] = {
            {"calls", 4}, {"cycles", 1e6}, {"instructions", 2e6}, {"cache_misses", 10}, {"branch_misses", 5}};
      }
    }
  }
  analyse(run);
  return run;
}

void expect_verdicts(const Json& rows) {
  static const std::set<std::string> known = {"REGRESSED",    "METHOD CHANGED", "IMPROVED", "EQUIVALENT",
                                              "INCONCLUSIVE", "CONTAMINATED",   "INVALID"};
  for (const Json& row : rows) {
    EXPECT_TRUE(known.contains(text(row, "verdict"))) << row;
  }
}

Json read(const std::string& text) { return parse_json("damaged.json", quote_non_finite(text)); }

/// Checks the files, then compares and judges as the verbs do. True if there was a comparison.
bool try_pair(const Json& base, const Json& head) {
  try {
    for (const Json* side : {&base, &head}) {
      if (!is_google_benchmark(*side)) {
        check_run("damaged.json", *side);
      }
    }
    for (const CompareBy by : {CompareBy::commit, CompareBy::arm, CompareBy::machine}) {
      CompareOptions options;
      options.by = by;
      options.force_time = by == CompareBy::machine;
      const Json comparison = compare_runs(base, head, options);
      expect_verdicts(comparison["rows"]);
      EXPECT_FALSE(render_comparison(comparison, {"a", "b"}).empty());
      EXPECT_FALSE(render_comparison_markdown(comparison, {"a", "b"}).empty());
    }
    CompareOptions interleaved;
    interleaved.interleaved = true;
    GateSetup setup;
    setup.time_decides = true;
    const Json screen = compare_runs(base, head, interleaved);
    const Json gate = judge_gate(screen, screen, {}, setup);
    const int code = gate["exit_code"].get<int>();
    EXPECT_TRUE(code == gate_pass || code == gate_regressed || code == gate_cannot_tell) << code;
    if (!list(screen, "vanished").empty() || gate["rows"].empty()) {
      EXPECT_NE(code, gate_pass);
    }
    EXPECT_FALSE(render_gate(gate).empty());
    EXPECT_FALSE(render_gate_markdown(gate).empty());
    EXPECT_FALSE(render_junit(gate).empty());
    render_annotations(gate);
    return true;
  } catch (const Error& error) {
    EXPECT_GT(std::string(error.what()).size(), 20U) << error.what();
    return false;
  }
}

void expect_survival(JsonMutator mutator, const Json& good, int tried) {
  int compared = 0;
  for (int i = 0; i < tried && !::testing::Test::HasFailure(); ++i) {
    const std::string damaged = mutator.damaged_document();
    try {
      compared += i % 2 == 0 ? try_pair(good, read(damaged)) : try_pair(read(damaged), good);
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find("damaged.json"), std::string::npos) << error.what();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "not the right kind of error: " << error.what();
    }
    if (::testing::Test::HasFailure()) {
      const fs::path kept = fs::temp_directory_path() / "diptych_compare_fuzz_finding.json";
      std::ofstream(kept) << damaged;
      ADD_FAILURE() << "the document is kept as " << kept;
    }
  }
  EXPECT_GT(compared, tried / 20) << "damage that the checks can't see is tried too";
  EXPECT_LT(compared, tried * 95 / 100);
}

TEST(CompareFuzz, DamagedRunsAreRefusedOrJudged) {
  const Json good = good_run();
  expect_survival(JsonMutator({good.dump()}), good, fuzz_times(1000));
}

TEST(CompareFuzz, DamagedGoogleBenchmarkFilesAreRefusedOrJudged) {
  const Json good = to_google_benchmark(good_run());
  expect_survival(JsonMutator({good.dump()}), good, fuzz_times(1500));
}

TEST(CompareFuzz, DamagedTextsNeverGetThatFar) {
  JsonMutator mutator({to_google_benchmark(good_run()).dump(), good_run().dump()});
  for (int i = 0; i < fuzz_times(1000); ++i) {
    const std::string damaged = mutator.damaged_text();
    try {
      try_pair(read(damaged), good_run());
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find("damaged.json"), std::string::npos) << error.what();
    }
  }
}

// A damaged calibration is refused or doesn't hold; it may hold where nothing rests on what is damaged.
TEST(CompareFuzz, DamagedCalibrationsAreRefusedOrLooked) {
  const Json run = good_run();
  Json calibration = new_calibration(run["environment"], {{"workloads", {"mlp/digits"}}, {"arms", {"eager"}}});
  CompareOptions options;
  options.interleaved = true;
  GateSetup setup;
  setup.time_decides = true;
  const Json gate = judge_gate(compare_runs(run, run, options), nullptr, {}, setup);
  for (int i = 0; i < 3; ++i) {
    add_calibration_run(calibration, run, run, gate);
  }
  JsonMutator mutator({calibration.dump()});
  for (int i = 0; i < fuzz_times(1000); ++i) {
    const std::string text = mutator.damaged_document();
    try {
      Json damaged = read(text);
      check_calibration(damaged);
      EXPECT_FALSE(match_calibration(damaged, run["environment"]).holds) << "three runs bound nothing";
      add_calibration_run(damaged, run, run, gate);
    } catch (const Error&) {
    } catch (const std::exception& error) {
      ADD_FAILURE() << "not the right kind of error: " << error.what() << "\n" << text.substr(0, 2000);
      return;
    }
  }
}

}  // namespace
}  // namespace diptych::reports
