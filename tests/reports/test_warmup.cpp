// Series whose truth is known: they are made here.

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/analysis/change_points.h"
#include "reports/analysis/warmup.h"

namespace diptych::reports {
namespace {

using Values = std::vector<double>;
using Random = std::mt19937_64;
using Level = std::function<double(int call)>;

double normal(Random& random) { return std::normal_distribution<double>()(random); }

// Calls after the first, of about a millisecond at the level asked for, some of them interrupted.
Values calls(Random& random, const Level& level, double noise = 0.015, double spikes = 0.05, int count = 64) {
  Values out;
  for (int i = 1; i <= count; ++i) {
    const bool interrupted = std::uniform_real_distribution<double>()(random) < spikes;
    out.push_back(1e-3 * std::exp(level(i) + noise * normal(random)) * (interrupted ? 3 : 1));
  }
  return out;
}

Values rounds(Random& random, const Level& level, double noise = 0.005, int count = 12) {
  Values out;
  for (int i = 0; i < count; ++i) {
    // Blocks are quieter than calls, and a little slower: other arms ran between them.
    out.push_back(1.07e-3 * std::exp(level(i) + noise * normal(random)));
  }
  return out;
}

double constant(int /*call*/) { return 0; }

// How often, of 400 series, the class is `expected`.
double share(WarmupClass expected, const std::function<Values(Random&)>& early,
             const std::function<Values(Random&)>& late) {
  Random random(17);
  int hits = 0;
  for (int i = 0; i < 400; ++i) {
    hits += classify_warmup(early(random), late(random))->kind == expected ? 1 : 0;
  }
  return hits / 400.0;
}

double share_of(WarmupClass expected, const Level& early, const Level& late = constant) {
  return share(
      expected, [&](Random& r) { return calls(r, early); }, [&](Random& r) { return rounds(r, late); });
}

TEST(Warmup, FlatSeriesAreFlat) {
  EXPECT_GT(share_of(WarmupClass::flat, constant), 0.97);
  const auto noisy = [](Random& r) { return calls(r, constant, 0.08, 0.1); };
  const auto late = [](Random& r) { return rounds(r, constant); };
  EXPECT_GT(share(WarmupClass::flat, noisy, late), 0.95);
  for (const double noise : {0.01, 0.02, 0.05}) {
    const auto quiet = [](Random& r) { return calls(r, constant); };
    const auto noisy_rounds = [&](Random& r) { return rounds(r, constant, noise); };
    EXPECT_GT(share(WarmupClass::flat, quiet, noisy_rounds), 0.95) << noise;
  }
  const auto ticking = [](Random& r) {
    Values out;
    for (int i = 0; i < 64; ++i) {
      out.push_back(1e-8 * std::round(std::exp(0.02 * normal(r)) * 10));
    }
    return out;
  };
  EXPECT_GT(share(WarmupClass::flat, ticking, late), 0.95);
}

TEST(Warmup, StepsAndDecaysAreWarmUps) {
  EXPECT_GT(share_of(WarmupClass::warm_up, [](int i) { return i < 10 ? 0.1 : 0; }), 0.97);
  EXPECT_GT(share_of(WarmupClass::warm_up, [](int i) { return i < 40 ? 0.06 : 0; }), 0.97);
  EXPECT_GT(share_of(WarmupClass::warm_up, [](int i) { return 0.5 * std::exp(-i / 8.0); }), 0.97);
}

TEST(Warmup, ALaterLevelThatIsSlowerIsASlowdown) {
  EXPECT_GT(share_of(WarmupClass::slowdown, [](int i) { return i < 20 ? -0.1 : 0; }), 0.97);
  EXPECT_GT(share_of(WarmupClass::slowdown, [](int i) { return i < 10 ? 0.3 : i < 30 ? -0.1 : 0; }), 0.97);
  EXPECT_GT(share_of(WarmupClass::slowdown, constant, [](int i) { return i < 5 ? 0 : 0.05; }), 0.97);
}

TEST(Warmup, LateOrRepeatedChangesAreNoSteadyState) {
  EXPECT_GT(share_of(WarmupClass::no_steady_state, constant, [](int i) { return i < 8 ? 0 : 0.05; }), 0.97);
  EXPECT_GT(share_of(WarmupClass::no_steady_state, constant, [](int i) { return i < 8 ? 0 : -0.05; }), 0.97);
  EXPECT_GT(share_of(WarmupClass::no_steady_state, constant, [](int i) { return i / 4 == 1 ? 0.05 : 0; }), 0.97);
  const auto nothing = [](Random&) { return Values{}; };
  const auto late_step = [](Random& r) { return calls(r, [](int i) { return i < 55 ? 0.1 : 0; }); };
  EXPECT_GT(share(WarmupClass::no_steady_state, late_step, nothing), 0.95);
}

TEST(Warmup, TheStepToTheRoundsAndSmallChangesDoNotCount) {
  Random random(3);
  const Values early = calls(random, constant, 0.002, 0);
  EXPECT_EQ(classify_warmup(early, Values(12, 2e-3))->kind, WarmupClass::flat);
  const auto small = [](int i) { return i < 30 ? 0.012 : 0; };
  EXPECT_EQ(classify_warmup(calls(random, small, 0.001, 0), Values(12, 1e-3))->kind, WarmupClass::flat);
}

TEST(Warmup, SaysHowManyCallsAndHowFast) {
  Random random(4);
  const auto step = [](int i) { return i < 11 ? 0.4 : 0; };
  const auto found = classify_warmup(calls(random, step), Values(12, 1.1e-3));
  ASSERT_TRUE(found);
  EXPECT_NEAR(static_cast<double>(found->calls), 11, 1);
  EXPECT_NEAR(found->steady_seconds, 1.1e-3, 1e-12);
  EXPECT_NEAR(classify_warmup(calls(random, step), {})->steady_seconds, 1e-3, 2e-5);
}

TEST(Warmup, Limits) {
  EXPECT_FALSE(classify_warmup(Values(7, 1e-3), {}));
  EXPECT_EQ(classify_warmup(Values(8, 1e-3), {})->kind, WarmupClass::flat);
  EXPECT_EQ(classify_warmup(Values(64, 1e-3), Values(1, 1e-3))->kind, WarmupClass::flat);
  for (const double bad : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    Values broken(20, 1e-3);
    broken[9] = bad;
    EXPECT_THROW(classify_warmup(broken, {}), Error);
    EXPECT_THROW(classify_warmup(Values(20, 1e-3), broken), Error);
  }
  EXPECT_THAT(change_points(Values{}), ::testing::IsEmpty());
  EXPECT_THAT(change_points(Values(100, 0.0)), ::testing::IsEmpty());
}

TEST(ChangePoints, AreWhereTheLevelsChange) {
  Values values(60);
  for (std::size_t i = 0; i < 60; ++i) {
    values[i] = (i < 20 ? 1.0 : i < 37 ? 0.0 : 0.5) + (i % 2 == 0 ? 0.02 : -0.02);
  }
  EXPECT_THAT(change_points(values), ::testing::ElementsAre(20, 37));
}

TEST(ArmWarmup, IsWhatMostProcessesShow) {
  Random random(5);
  const auto drawn = [&](int warming, int flat) {
    nlohmann::json processes = nlohmann::json::array();
    for (int p = 0; p < warming + flat; ++p) {
      const Values series = calls(random, [&](int i) { return p < warming && i < 15 ? 0.3 : 0; });
      nlohmann::json process = {{"arms", {{{"name", "other"}}, {{"name", "graph"}, {"warmup_seconds", series}}}},
                                {"rounds", nlohmann::json::array()}};
      for (int r = 0; r < 6; ++r) {
        process["rounds"].push_back({{"seconds", {{"graph", 1e-3}}}});
      }
      processes.push_back(process);
    }
    return processes;
  };
  const auto of = [](const nlohmann::json& processes, const char* arm) {
    return warmup_of(Parts<Process>(processes).all(), arm);
  };
  const nlohmann::json most = of(drawn(6, 2), "graph");
  EXPECT_EQ(most.at("class"), "warm-up");
  EXPECT_EQ(most.at("processes"), (nlohmann::json{{"warm-up", 6}, {"flat", 2}}));
  EXPECT_NEAR(most.at("steady_after_calls").get<double>(), 15, 1);
  EXPECT_EQ(of(drawn(4, 4), "graph").at("class"), "inconsistent");
  EXPECT_TRUE(of(drawn(4, 4), "other").is_null());
  EXPECT_TRUE(of(nlohmann::json::array(), "graph").is_null());
}

}  // namespace
}  // namespace diptych::reports
