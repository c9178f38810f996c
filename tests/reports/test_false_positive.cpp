#include <cmath>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/gate/false_positive.h"

namespace diptych::reports {
namespace {

using Cells = std::vector<std::vector<double>>;

Cells null_cells(std::size_t count, std::size_t processes, double s, std::uint64_t seed, double mean = 0) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(mean, s);
  Cells cells(count, std::vector<double>(processes));
  for (auto& cell : cells) {
    for (double& e : cell) {
      e = normal(random);
    }
  }
  return cells;
}

std::vector<CellState> quiet(std::size_t count) {
  CellState state;
  state.agree = true;
  return std::vector<CellState>(count, state);
}

// Without a band every fresh A/A family is a test of its own; any alarm among 12 cells has probability alpha at most,
// and nearly alpha. Without the correction it would be 1 - 0.95^12 = 46 %.
TEST(DecideChanges, KeepTheFamilyWiseErrorOfFreshData) {
  constexpr int families = 1500;
  int alarms = 0;
  for (int i = 0; i < families; ++i) {
    const Cells cells = null_cells(12, 12, 0.02, static_cast<std::uint64_t>(i) + 100);
    bool alarm = false;
    for (const nlohmann::json& judged : decide_changes(cells, quiet(12), {.delta = 0, .alpha = 0.05})) {
      alarm = alarm || judged.at("verdict") == "REGRESSED" || judged.at("verdict") == "IMPROVED";
    }
    alarms += alarm ? 1 : 0;
  }
  EXPECT_NEAR(alarms / static_cast<double>(families), 0.05, 4 * std::sqrt(0.05 * 0.95 / families));
}

TEST(DecideChanges, CellsThatCannotBeJudgedDoNotDilute) {
  Cells cells(20, std::vector<double>{0.03, 0.034, 0.032, 0.033});
  std::vector<CellState> states = quiet(20);
  for (std::size_t i = 1; i < cells.size(); ++i) {
    i % 2 == 0 ? cells[i].clear() : void(states[i].steal = 1);
  }
  const auto judged = decide_changes(cells, states, {.alpha = 0.01});
  EXPECT_EQ(judged[0].at("verdict"), "REGRESSED");
  EXPECT_EQ(judged[1].at("verdict"), "CONTAMINATED");
  EXPECT_EQ(judged[2].at("verdict"), "INVALID");
  EXPECT_TRUE(decide_changes({}, {}, {}).empty());
}

TEST(FalsePositiveRate, IsNearZeroForQuietCellsWithinTheBand) {
  const RateBound rate = false_positive_rate(null_cells(12, 30, 0.01, 1));
  EXPECT_EQ(rate.runs, 1000);
  EXPECT_EQ(rate.alarms, 0);
  EXPECT_LT(rate.upper, 0.01);
}

TEST(FalsePositiveRate, SeesABiasAndDependsOnTheSeedAlone) {
  const Cells biased = null_cells(2, 30, 0.01, 1, 0.04);
  const RateBound rate = false_positive_rate(biased, {.resamples = 200});
  EXPECT_GT(rate.rate, 0.5);
  EXPECT_EQ(false_positive_rate(biased, {.resamples = 200}).alarms, rate.alarms);
  // One cell of many is enough for an alarm.
  Cells one = null_cells(6, 30, 0.005, 2);
  for (double& e : one[3]) {
    e += 0.05;
  }
  EXPECT_EQ(false_positive_rate(one, {.resamples = 50}).alarms, 50);
}

TEST(FalsePositiveRate, RefusesWhatSaysNothing) {
  EXPECT_THROW(false_positive_rate({}), Error);
  EXPECT_THROW(false_positive_rate(Cells{{0.1}}), Error);
  EXPECT_THROW(false_positive_rate(Cells{{0.1, std::nan("")}}), Error);
  EXPECT_THROW(false_positive_rate(Cells{{0.1, 0.2}}, {.processes = 1}), Error);
  EXPECT_THROW(false_positive_rate(Cells{{0.1, 0.2}}, {.resamples = 0}), Error);
}

}  // namespace
}  // namespace diptych::reports
