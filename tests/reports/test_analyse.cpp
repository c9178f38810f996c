#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/analysis/analyse.h"
#include "reports/run/schema.h"
#include "tests/reports/sample_run.h"

namespace diptych::reports {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::sample_run;
using testing::SampleCell;
using testing::SampleSize;
using Json = nlohmann::json;

Json analysed(Json run) {
  analyse(run);
  return run;
}

Json two_arms(double eager, double graph, const SampleSize& size = {}) {
  return sample_run({SampleCell{"micro/pair", {"eager", "graph"}, {eager, graph}, {0, 1e-2}}}, size);
}

std::string verdict(const Json& run) {
  const Json& v = run["cells"][0]["comparisons"][0]["verdict"];
  return v["verdict"].get<std::string>() + " " + v["reason"].get<std::string>();
}

TEST(Analyse, FindsTheTruthBehindTheRounds) {
  const Json run = analysed(sample_run());
  const Json& cell = run["cells"][0];
  const Json& graph = cell["comparisons"][1];
  EXPECT_EQ(graph["base"], "eager");
  EXPECT_EQ(graph["arm"], "graph");
  EXPECT_NEAR(graph["speedup"]["estimate"].get<double>(), 1.0 / 0.68, 0.03);
  EXPECT_NEAR(cell["arms"][0]["seconds"]["estimate"].get<double>(), 1e-4, 2e-6);
  EXPECT_NEAR(cell["arms"][2]["compile_seconds"]["estimate"].get<double>(), 6.5e-3, 4e-4);
  EXPECT_NEAR(graph["break_even"]["calls"].get<double>(), 6.5e-3 / 0.32e-4, 20);
  EXPECT_EQ(verdict(run), "FASTER interval-excludes-1");
}

TEST(Analyse, FitsTheSchema) { EXPECT_THAT(validate(analysed(sample_run())), IsEmpty()); }

TEST(Analyse, TwiceGivesTheSameAsOnce) {
  const Json once = analysed(sample_run());
  EXPECT_EQ(analysed(once), once);
}

TEST(Analyse, FirstWorstAndCompileCallsOverProcesses) {
  Json run = two_arms(1e-3, 5e-4, {"standard", 3, 4});
  for (int p = 0; p < 3; ++p) {
    Json& arm = run["cells"][0]["processes"][static_cast<std::size_t>(p)]["arms"][1];
    arm = {{"name", "graph"}, {"first_call_seconds", 1 + p}, {"compile_seconds", 0.5}, {"worst_call_seconds", 10 + p}};
  }
  const Json arm = analysed(run)["cells"][0]["arms"][1];
  EXPECT_EQ(arm["first_call_seconds"], 2.0);
  EXPECT_EQ(arm["worst_call_seconds"], 12.0);
  EXPECT_NEAR(arm["compile_seconds"]["estimate"].get<double>(), 0.5, 1e-12);
}

TEST(Ladder, SharesAddUpToTheWholeGap) {
  const Json cell = analysed(sample_run())["cells"][0];
  ASSERT_EQ(cell["rungs"].size(), 2u);
  EXPECT_EQ(cell["rungs"][0]["from"], "eager");
  EXPECT_EQ(cell["rungs"][0]["to"], "replay");
  EXPECT_EQ(cell["rungs"][0]["cause"], "dispatch, tape, allocation");
  EXPECT_EQ(cell["rungs"][1]["cause"], "passes");
  const double first = cell["rungs"][0]["share"];
  const double second = cell["rungs"][1]["share"];
  EXPECT_NEAR(first + second + cell["ladder"]["residual_share"].get<double>(), 1, 1e-12);
  EXPECT_NEAR(first, 0.21 / 0.32, 0.05);
}

TEST(Ladder, TakesTheArmsOwnCauseAndLeavesOutsidersOut) {
  Json run = sample_run({SampleCell{"a", {"eager", "+x", "torch"}, {3, 2, 1}, {0, 1, 0}}});
  run["cells"][0]["arms"][1]["cause"] = "magic";
  run["cells"][0]["arms"][2]["in_ladder"] = false;
  run = analysed(run);
  ASSERT_EQ(run["cells"][0]["rungs"].size(), 1u);
  EXPECT_EQ(run["cells"][0]["rungs"][0]["cause"], "magic");
  EXPECT_EQ(run["cells"][0]["comparisons"].size(), 2u);
  EXPECT_THAT(validate(run), IsEmpty());
}

TEST(Ladder, HasNoSharesWhenTheGapIsUnclear) {
  const Json cell = analysed(two_arms(1e-3, 1e-3))["cells"][0];
  EXPECT_TRUE(cell["rungs"][0]["share"].is_null());
  EXPECT_FALSE(cell["rungs"][0]["saved_seconds"].is_null());
}

TEST(Verdict, SlowerEquivalentAndInconclusive) {
  EXPECT_EQ(verdict(analysed(two_arms(1e-3, 1.2e-3))), "SLOWER interval-excludes-1");
  SampleSize steady{"standard", 12, 12, 0.002, 0.002, 4};
  EXPECT_EQ(verdict(analysed(two_arms(1e-3, 1e-3, steady))), "EQUIVALENT within-margin");
  SampleSize noisy{"standard", 6, 6, 0.15, 0.1, 4};
  const Json run = analysed(two_arms(1e-3, 1e-3, noisy));
  EXPECT_EQ(verdict(run), "INCONCLUSIVE effect-below-mde");
  EXPECT_GT(run["cells"][0]["comparisons"][0]["mde"].get<double>(), 0.1);
}

TEST(Verdict, QuickOnlyIndicates) {
  const auto direction = [](double eager, double graph, double noise) {
    const Json run = analysed(two_arms(eager, graph, {"quick", 3, 6, noise, noise, 2}));
    EXPECT_EQ(verdict(run), "INDICATIVE quick-size");
    return run["cells"][0]["comparisons"][0]["verdict"]["direction"].get<std::string>();
  };
  EXPECT_EQ(direction(1e-3, 5e-4, 0.01), "faster");
  EXPECT_EQ(direction(5e-4, 1e-3, 0.01), "slower");
  EXPECT_EQ(direction(1e-3, 1e-3, 0.1), "unclear");
}

TEST(Verdict, DisagreeingArmsAreInvalidHoweverFast) {
  Json run = two_arms(1e-3, 1e-5);
  run["cells"][0]["validity"] = {{"agree", false}, {"checks", Json::array()}, {"reason", "output 0: 3 ULP"}};
  run["cells"][0]["processes"][0]["control_drift"] = 0.9;
  run = analysed(run);
  EXPECT_EQ(verdict(run), "INVALID arms-disagree");
  EXPECT_TRUE(run["cells"][0]["comparisons"][0]["speedup"].is_null());
  EXPECT_THAT(run["cells"][0]["rungs"], IsEmpty());
  EXPECT_THAT(validate(run), IsEmpty());
}

TEST(Verdict, NothingMeasuredIsInvalid) {
  Json no_rounds = two_arms(1e-3, 1e-5);
  for (Json& process : no_rounds["cells"][0]["processes"]) {
    process["rounds"] = Json::array();
  }
  Json no_processes = two_arms(1e-3, 1e-5);
  no_processes["cells"][0]["processes"] = Json::array();
  for (Json run : {no_rounds, no_processes}) {
    run = analysed(run);
    EXPECT_EQ(verdict(run), "INVALID empty");
    EXPECT_THAT(validate(run), IsEmpty());
  }
}

TEST(Verdict, ANoisyMachineContaminates) {
  Json drift = two_arms(1e-3, 5e-4);
  drift["cells"][0]["processes"][3]["control_drift"] = -0.08;
  EXPECT_EQ(verdict(analysed(drift)), "CONTAMINATED control-drift");
  Json steal = two_arms(1e-3, 5e-4);
  steal["cells"][0]["processes"][0]["steal_seconds"] = 0.06 * 12 * 200 * 1.5e-3;
  EXPECT_EQ(verdict(analysed(steal)), "CONTAMINATED steal-time");
  Json unknown = two_arms(1e-3, 5e-4);
  unknown["cells"][0]["processes"][0]["steal_seconds"] = nullptr;
  unknown["cells"][0]["processes"][0]["control_drift"] = nullptr;
  EXPECT_EQ(verdict(analysed(unknown)), "FASTER interval-excludes-1");
}

Json load_of(const Json& cpus, const Json& others) {
  return {{"before", 1.0}, {"after", 1.1}, {"cpus", cpus}, {"others_cpu", others}};
}

TEST(Verdict, OthersLoadContaminatesInTheMedianProcess) {
  const auto loaded = [](std::size_t processes, const Json& load) {
    Json run = two_arms(1e-3, 5e-4);
    for (std::size_t p = 0; p < processes; ++p) {
      run["cells"][0]["processes"][p]["load"] = load;
    }
    for (std::size_t p = processes; p < 8; ++p) {
      run["cells"][0]["processes"][p]["load"] = load_of(2, 0.02);
    }
    run = analysed(run);
    EXPECT_THAT(validate(run), IsEmpty());
    return verdict(run);
  };
  EXPECT_EQ(loaded(8, load_of(2, 0.9)), "CONTAMINATED load");
  EXPECT_EQ(loaded(2, load_of(2, 0.9)), "FASTER interval-excludes-1");
  EXPECT_EQ(loaded(8, load_of(16, 0.9)), "FASTER interval-excludes-1");
  EXPECT_EQ(loaded(8, load_of(nullptr, 0.9)), "FASTER interval-excludes-1");
  EXPECT_EQ(loaded(8, load_of(2, nullptr)), "FASTER interval-excludes-1");
}

// Forty cells of equal arms: some t interval excludes 1 by chance, and none of them may be called faster.
TEST(Verdict, HolmProtectsTheWholeRun) {
  std::vector<SampleCell> cells(40, SampleCell{"micro/pair", {"eager", "graph"}, {1e-3, 1e-3}, {0, 0.01}});
  cells.push_back(SampleCell{"micro/pair", {"eager", "graph"}, {1e-3, 5e-4}, {0, 0.01}});
  const Json run = analysed(sample_run(cells, {"standard", 8, 6, 0.03, 0.02, 21}));
  EXPECT_THAT(validate(run), IsEmpty());
  int held_back = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    const Json& comparison = run["cells"][i]["comparisons"][0];
    EXPECT_GE(comparison["evidence"]["p_holm"], comparison["evidence"]["p"]);
    const std::string name = comparison["verdict"]["verdict"];
    EXPECT_TRUE(name != "FASTER" && name != "SLOWER") << i;
    held_back += comparison["verdict"]["reason"] == "holm" ? 1 : 0;
  }
  EXPECT_GT(held_back, 0) << "the data holds a chance finding, or this test says nothing";
  EXPECT_EQ(run["cells"][40]["comparisons"][0]["verdict"]["verdict"], "FASTER");
}

TEST(AnalysedWarmup, IsFilledWhereTheFirstCallsWereRecorded) {
  Json run = two_arms(1e-3, 5e-4);
  for (Json& process : run["cells"][0]["processes"]) {
    std::vector<double> calls(64, 5e-4);
    std::fill(calls.begin(), calls.begin() + 20, 8e-4);
    process["arms"][1]["warmup_seconds"] = calls;
  }
  run = analysed(run);
  EXPECT_THAT(validate(run), IsEmpty());
  EXPECT_TRUE(run["cells"][0]["arms"][0]["warmup"].is_null());
  const Json& warmup = run["cells"][0]["arms"][1]["warmup"];
  EXPECT_EQ(warmup["class"], "warm-up");
  EXPECT_EQ(warmup["processes"], (Json{{"warm-up", 8}}));
  EXPECT_EQ(warmup["steady_after_calls"], 21);
}

TEST(AnalysedEvidence, AgreesWithTheSpeedupAndIsNullWhereItCannotBe) {
  const Json run = analysed(two_arms(1e-3, 5e-4));
  const Json& comparison = run["cells"][0]["comparisons"][0];
  for (const char* name : {"sign_interval", "bootstrap_interval"}) {
    EXPECT_LT(comparison["evidence"][name]["low"], comparison["speedup"]["estimate"]) << name;
    EXPECT_GT(comparison["evidence"][name]["high"], comparison["speedup"]["estimate"]) << name;
  }
  EXPECT_LT(comparison["evidence"]["p"], 1e-6);
  EXPECT_EQ(comparison["evidence"]["p"], comparison["evidence"]["p_holm"]);
  EXPECT_NEAR(comparison["evidence"]["variance"]["between"].get<double>() +
                  comparison["evidence"]["variance"]["within"].get<double>(),
              1, 1e-12);
  const Json one = analysed(two_arms(1e-3, 5e-4, {"custom", 1, 6}));
  const Json& little = one["cells"][0]["comparisons"][0]["evidence"];
  for (const char* name : {"sign_interval", "bootstrap_interval", "p", "p_holm", "variance"}) {
    EXPECT_TRUE(little[name].is_null()) << name;
  }
  Json invalid = two_arms(1e-3, 5e-4);
  invalid["cells"][0]["validity"]["agree"] = false;
  invalid = analysed(invalid);
  EXPECT_TRUE(invalid["cells"][0]["comparisons"][0]["evidence"].is_null());
}

TEST(Verdict, OneProcessHasNoInterval) {
  const Json run = analysed(two_arms(1e-3, 5e-4, {"custom", 1, 6}));
  const Json& comparison = run["cells"][0]["comparisons"][0];
  EXPECT_EQ(verdict(run), "INCONCLUSIVE too-few-processes");
  EXPECT_TRUE(comparison["speedup"]["low"].is_null());
  EXPECT_TRUE(comparison["mde"].is_null());
  EXPECT_THAT(validate(run), IsEmpty());
}

TEST(Analyse, NamesTheRoundThatIsNotAMeasurement) {
  for (const Json& bad : {Json(0), Json(-1e-3), Json(nullptr), Json("fast")}) {
    Json run = two_arms(1e-3, 5e-4);
    run["cells"][0]["processes"][1]["rounds"][2]["seconds"]["graph"] = bad;
    try {
      analyse(run);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("micro/pair, process 2, round 3: arm 'graph'"));
    }
  }
}

TEST(Analyse, WithoutEagerThereIsNothingToCompare) {
  const Json run = analysed(sample_run({SampleCell{"a", {"graph"}, {1e-3}, {0.1}}}));
  EXPECT_THAT(run["cells"][0]["comparisons"], IsEmpty());
  EXPECT_THAT(run["cells"][0]["rungs"], IsEmpty());
  EXPECT_THAT(validate(run), IsEmpty());
}

}  // namespace
}  // namespace diptych::reports
