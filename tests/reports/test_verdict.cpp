// Verdicts of changes between builds.

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/analysis/verdict.h"
#include "reports/statistics/statistics.h"

namespace diptych::reports {
namespace {

using Values = std::vector<double>;
using ::testing::HasSubstr;

CellState quiet() {
  CellState state;
  state.agree = true;
  return state;
}

// Twelve processes whose t interval is known: mean +- t * s / sqrt(12), with s as asked.
Values spread_around(double mean, double s) {
  Values effects;
  for (int i = 0; i < 6; ++i) {
    effects.insert(effects.end(), {mean + s * std::sqrt(11.0 / 12), mean - s * std::sqrt(11.0 / 12)});
  }
  return effects;
}

std::string verdict_of(const Values& effects, const ChangeRule& rule = {}, const CellState& state = quiet()) {
  const nlohmann::json found = decide_change(effects, rule, state);
  EXPECT_FALSE(found.at("detail").get<std::string>().empty());
  return found.at("verdict").get<std::string>() + " " + found.at("reason").get<std::string>();
}

// t_{0.995, 11} = 3.106: with s = 1 % the 99 % interval is +-0.897 %, the band +-1.980 % on the log scale.
TEST(DecideChange, JudgesTheIntervalAgainstTheBand) {
  EXPECT_EQ(verdict_of(spread_around(0.0289, 0.01)), "REGRESSED outside-delta");
  EXPECT_EQ(verdict_of(spread_around(0.0286, 0.01)), "INCONCLUSIVE effect-below-mde");
  EXPECT_EQ(verdict_of(spread_around(-0.0289, 0.01)), "IMPROVED outside-delta");
  EXPECT_EQ(verdict_of(spread_around(-0.0286, 0.01)), "INCONCLUSIVE effect-below-mde");
  // t_{0.95, 11} = 1.796: the 90 % interval is +-0.518 %.
  EXPECT_EQ(verdict_of(spread_around(0.0145, 0.01)), "EQUIVALENT within-delta");
  EXPECT_EQ(verdict_of(spread_around(0.0148, 0.01)), "INCONCLUSIVE effect-below-mde");
  EXPECT_EQ(verdict_of(spread_around(0, 0.01)), "EQUIVALENT within-delta");
  EXPECT_EQ(verdict_of(spread_around(0, 0.1)), "INCONCLUSIVE effect-below-mde");
}

TEST(DecideChange, IdenticalFiguresAndExactOnes) {
  EXPECT_EQ(verdict_of({0, 0, 0}), "EQUIVALENT within-delta");
  EXPECT_EQ(verdict_of({0.05, 0.05, 0.05}), "REGRESSED outside-delta");
  // Tolerance 0: any consistent change counts, none is equivalent.
  EXPECT_EQ(verdict_of({1e-9, 1e-9}, {.delta = 0}), "REGRESSED outside-delta");
}

TEST(DecideChange, HolmTakesBackWhatTheFamilyExplains) {
  const Values effects = spread_around(0.0289, 0.01);
  EXPECT_EQ(verdict_of(effects, {.p_holm = 0.0099}), "REGRESSED outside-delta");
  EXPECT_EQ(verdict_of(effects, {.p_holm = 0.02}), "INCONCLUSIVE holm");
  EXPECT_EQ(verdict_of(spread_around(0, 0.01), {.p_holm = 1.0}), "EQUIVALENT within-delta");
}

TEST(DecideChange, TheDetailNamesTheDetectableChange) {
  // (3.106 + 1.363) * 2 % / sqrt(12) = 2.58 % beyond a band of 2 %.
  const Values effects = spread_around(0, 0.02);
  EXPECT_NEAR(*detectable_change(effects, {}), 1.02 * std::exp(0.0258) - 1, 1e-4);
  EXPECT_THAT(decide_change(spread_around(0.02, 0.02), {}, quiet()).at("detail").get<std::string>(),
              HasSubstr("a slowdown of 4.7 % or more"));
  EXPECT_GT(*detectable_change(effects, {.family = 12}), *detectable_change(effects, {}));
  EXPECT_FALSE(detectable_change(Values{0.1}, {}));
}

TEST(DecideChange, ValidityComesFirstThenTheMachineThenTheSize) {
  const Values regressed = {0.05, 0.05, 0.05};
  CellState state = quiet();
  state.quick = true;
  EXPECT_EQ(verdict_of(regressed, {}, state), "INCONCLUSIVE quick-size");
  state.others_load = 0.26;
  EXPECT_EQ(verdict_of(regressed, {}, state), "CONTAMINATED load");
  state.steal = 0.06;
  EXPECT_EQ(verdict_of(regressed, {}, state), "CONTAMINATED steal-time");
  state.control_drift = 0.06;
  EXPECT_EQ(verdict_of(regressed, {}, state), "CONTAMINATED control-drift");
  state.agree = false;
  EXPECT_EQ(verdict_of(regressed, {}, state), "INVALID arms-disagree");
  EXPECT_EQ(verdict_of({}), "INVALID empty");
  EXPECT_EQ(verdict_of({0.1, std::nan("")}), "INVALID empty");
  EXPECT_EQ(verdict_of({0.1, -std::numeric_limits<double>::infinity()}), "INVALID empty");
  EXPECT_EQ(verdict_of({0.1}), "INCONCLUSIVE too-few-processes");
}

TEST(DecideChange, RefusesRulesThatAreNone) {
  EXPECT_THROW(decide_change(Values{0}, {.delta = -0.1}, quiet()), Error);
  EXPECT_THROW(decide_change(Values{0}, {.delta = std::nan("")}, quiet()), Error);
  EXPECT_THROW(decide_change(Values{0}, {.alpha = 0}, quiet()), Error);
  EXPECT_THROW(decide_change(Values{0}, {.power = 1}, quiet()), Error);
}

// The rule's own claim: on the band's edge, the worst that is still no change, it errs with alpha / 2 on that side.
TEST(DecideChange, ErrsAsOftenAsItSaysOnTheEdge) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal(std::log(1.02), 0.015);
  constexpr int trials = 8000;
  int regressed = 0;
  for (int i = 0; i < trials; ++i) {
    Values effects(12);
    for (double& e : effects) {
      e = normal(random);
    }
    regressed += verdict_of(effects, {.alpha = 0.05}).starts_with("REGRESSED") ? 1 : 0;
  }
  EXPECT_NEAR(regressed / static_cast<double>(trials), 0.025, 4 * std::sqrt(0.025 * 0.975 / trials));
}

// And its power: a slowdown of the size that `detectable_change` names is found nine times in ten.
TEST(DecideChange, FindsWhatItSaysItCouldFind) {
  std::mt19937_64 random(12);
  constexpr double s = 0.015;
  const double size = std::log1p(*detectable_change(spread_around(0, s), {.family = 12}));
  std::normal_distribution<double> normal(size, s);
  constexpr int trials = 4000;
  int found = 0;
  for (int i = 0; i < trials; ++i) {
    Values effects(12);
    for (double& e : effects) {
      e = normal(random);
    }
    const double p = change_p(effects, 0.02);
    found += verdict_of(effects, {.p_holm = std::min(1.0, 12 * p)}).starts_with("REGRESSED") ? 1 : 0;
  }
  // The formula is an approximation (central t for a non-central one): a little optimistic.
  EXPECT_GT(found / static_cast<double>(trials), 0.86);
  EXPECT_LT(found / static_cast<double>(trials), 0.94);
}

}  // namespace
}  // namespace diptych::reports
