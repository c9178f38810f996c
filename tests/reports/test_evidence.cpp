#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/analysis/verdict.h"
#include "reports/statistics/distributions.h"
#include "reports/statistics/statistics.h"
#include "reports/statistics/welch.h"

namespace diptych::reports {
namespace {

using Values = std::vector<double>;

TEST(TTest, AgreesWithClosedFormsAndStudent) {
  // Two values: one degree, p = 1 - 2 atan(|t|) / pi with t = mean / (|difference| / 2).
  EXPECT_NEAR(mean_p(Values{1, 3}), 1 - 2 * std::atan(2.0) / std::acos(-1.0), 1e-12);
  // Student's sleep data (1908), differences of ten patients: t = 4.0621, p = 0.002833 (R's datasets::sleep).
  EXPECT_NEAR(mean_p(Values{1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4}), 0.002833, 5e-7);
}

TEST(TTest, LimitsAndNonsense) {
  EXPECT_EQ(mean_p(Values{}), 1);
  EXPECT_EQ(mean_p(Values{5}), 1);
  EXPECT_EQ(mean_p(Values{0, 0, 0}), 1);
  EXPECT_EQ(mean_p(Values{0.1, 0.1}), 0);
  EXPECT_EQ(mean_p(Values{-1, 1}), 1);
  EXPECT_THROW(mean_p(Values{1, std::numeric_limits<double>::quiet_NaN()}), Error);
  EXPECT_THROW(mean_p(Values{1, std::numeric_limits<double>::infinity()}), Error);
}

TEST(MeanP, CrossesAlphaWhereTheIntervalLeavesZero) {
  std::mt19937_64 random(2);
  std::exponential_distribution<double> exponential;
  int excluded = 0;
  for (int i = 0; i < 400; ++i) {
    Values effects(12);
    for (double& e : effects) {
      e = (i % 2 == 0 ? 1 : -1) * (exponential(random) - 0.4);
    }
    for (const double level : {0.90, 0.95, 0.99}) {
      EXPECT_EQ(mean_p(effects) <= 1 - level, mean_interval(effects, level).excludes(0)) << i;
    }
    excluded += mean_interval(effects).excludes(0) ? 1 : 0;
  }
  EXPECT_GT(excluded, 50);
  EXPECT_LT(excluded, 350);
}

TEST(ChangeP, CrossesAlphaWhereStudentsIntervalLeavesTheBand) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal(0.03, 0.02);
  for (int i = 0; i < 300; ++i) {
    Values effects(12);
    for (double& e : effects) {
      e = i % 2 == 0 ? normal(random) : -normal(random);
    }
    const Estimate e = effect_interval(*paired_effect(effects), 0.99);
    const double bound = std::log1p(0.015);
    EXPECT_EQ(change_p(effects, 0.015) < 0.01, *e.low > bound || *e.high < -bound);
  }
}

TEST(Holm, AgreesWithRsAdjustment) {
  // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") = 0.03 0.06 0.06 0.02
  EXPECT_THAT(holm(Values{0.01, 0.04, 0.03, 0.005}),
              ::testing::Pointwise(::testing::DoubleNear(1e-15), {0.03, 0.06, 0.06, 0.02}));
  EXPECT_THAT(holm(Values{0.9, 0.8}), ::testing::ElementsAre(1, 1));
  EXPECT_THAT(holm(Values{0.2}), ::testing::ElementsAre(0.2));
  EXPECT_THAT(holm(Values{}), ::testing::IsEmpty());
  EXPECT_THROW(holm(Values{1.1}), Error);
  EXPECT_THROW(holm(Values{std::nan("")}), Error);
}

TEST(SignInterval, UsesThePublishedOrderStatistics) {
  // Order statistics of a 95 % interval for the median, Conover, Practical Nonparametric Statistics, table A3:
  // n = 6: 1 and 6; 9: 2 and 8; 12: 3 and 10; 20: 6 and 15; 30: 10 and 21.
  const std::vector<std::vector<int>> table = {{6, 1, 6}, {8, 1, 8}, {9, 2, 8}, {12, 3, 10}, {20, 6, 15}, {30, 10, 21}};
  for (const auto& row : table) {
    Values values;
    for (int i = row[0]; i >= 1; --i) {
      values.push_back(i);
    }
    const auto interval = sign_interval(values);
    ASSERT_TRUE(interval);
    EXPECT_EQ(interval->low, row[1]) << row[0];
    EXPECT_EQ(interval->high, row[2]) << row[0];
  }
  EXPECT_FALSE(sign_interval(Values{1, 2, 3, 4, 5}));
  EXPECT_FALSE(sign_interval(Values{1, 2, 3, 4, 5, 6}, 0.99));
}

TEST(BootstrapInterval, DependsOnTheSeedAloneAndSurroundsTheMean) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  std::vector<Values> rounds(12, Values(10));
  for (Values& process : rounds) {
    const double effect = 0.3 + 0.02 * normal(random);
    for (double& d : process) {
      d = effect + 0.01 * normal(random);
    }
  }
  const auto a = bootstrap_interval(rounds, 3);
  const auto b = bootstrap_interval(rounds, 3);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->low, b->low);
  EXPECT_EQ(a->high, b->high);
  Values effects;
  for (const Values& process : rounds) {
    effects.push_back(median(process));
  }
  // Its width is near that of a normal interval with the variance of the sample: 2 * 1.96 * s / sqrt(P).
  const Estimate t = effect_interval(*paired_effect(effects), 0.95);
  EXPECT_LT(a->low, t.value);
  EXPECT_GT(a->high, t.value);
  EXPECT_NEAR((a->high - a->low) / (*t.high - *t.low), 1.96 / 2.201, 0.12);
}

TEST(BootstrapInterval, Limits) {
  const std::vector<Values> one = {{1, 2}};
  EXPECT_FALSE(bootstrap_interval(one, 1));
  const std::vector<Values> constant = {{2}, {2}};
  EXPECT_EQ(bootstrap_interval(constant, 1)->low, 2);
  const std::vector<Values> empty = {{2}, {}};
  EXPECT_THROW(bootstrap_interval(empty, 1), Error);
  const std::vector<Values> broken = {{2}, {std::nan("")}};
  EXPECT_THROW(bootstrap_interval(broken, 1), Error);
}

TEST(ClopperPearson, AgreesWithClosedFormsAndTables) {
  EXPECT_NEAR(clopper_pearson(0, 299).upper, 1 - std::pow(0.05, 1.0 / 299), 1e-12);
  EXPECT_LT(clopper_pearson(0, 299).upper, 0.01);
  EXPECT_GT(clopper_pearson(0, 298).upper, 0.00999);
  // R: binom.test(3, 100, alternative = "less")$conf.int = 0, 0.07571; binom.test(10, 20, ...) = 0, 0.69805
  EXPECT_NEAR(clopper_pearson(3, 100).upper, 0.07571, 1e-5);
  EXPECT_NEAR(clopper_pearson(10, 20).upper, 0.69805, 1e-5);
  EXPECT_EQ(clopper_pearson(5, 5).upper, 1);
  EXPECT_EQ(clopper_pearson(0, 0).upper, 1);
  EXPECT_DOUBLE_EQ(clopper_pearson(3, 12).rate, 0.25);
  EXPECT_THROW(clopper_pearson(-1, 5), Error);
  EXPECT_THROW(clopper_pearson(6, 5), Error);
  EXPECT_THROW(clopper_pearson(1, 5, 1.0), Error);
}

// By hand: processes {1, 3} and {5, 9}. Within: (2 + 8) / 2 = 5. Means 2 and 7 have variance 12.5, of which 5 / 2 is
// within: between 10.
TEST(VarianceShares, AgreeWithAWorkedExample) {
  const auto shares = variance_shares(std::vector<Values>{{1, 3}, {5, 9}});
  ASSERT_TRUE(shares);
  EXPECT_NEAR(shares->between, 10.0 / 15, 1e-12);
  EXPECT_NEAR(shares->within, 5.0 / 15, 1e-12);
}

TEST(VarianceShares, FindTheTruthOfSimulatedProcesses) {
  std::mt19937_64 random(8);
  std::normal_distribution<double> normal;
  std::vector<Values> rounds(400, Values(12));
  for (Values& process : rounds) {
    const double centre = 0.01 * normal(random);
    for (double& d : process) {
      d = centre + 0.02 * normal(random);
    }
  }
  EXPECT_NEAR(variance_shares(rounds)->between, 0.2, 0.03);
}

TEST(VarianceShares, Limits) {
  EXPECT_FALSE(variance_shares(std::vector<Values>{{1, 2}}));
  EXPECT_FALSE(variance_shares(std::vector<Values>{{1}, {2}}));
  EXPECT_FALSE(variance_shares(std::vector<Values>{{1, 1}, {1, 1}}));
  EXPECT_EQ(variance_shares(std::vector<Values>{{1, 1}, {2, 2}})->between, 1);
  EXPECT_EQ(variance_shares(std::vector<Values>{{1, 3}, {1, 3}})->within, 1);
  EXPECT_NEAR(variance_shares(std::vector<Values>{{1, 3}, {}, {5, 9}})->between, 10.0 / 15, 1e-12);
}

TEST(RoundAutocorrelation, FindsThePhiOfAnAutoregression) {
  std::mt19937_64 random(9);
  std::normal_distribution<double> normal;
  for (const double phi : {-0.5, 0.0, 0.4}) {
    std::vector<Values> rounds(4000, Values(20));
    for (Values& process : rounds) {
      double x = normal(random) / std::sqrt(1 - phi * phi);
      const double centre = 10 * normal(random);
      for (double& d : process) {
        d = centre + x;
        x = phi * x + normal(random);
      }
    }
    // The correction is exact for phi = 0; otherwise a bias of order phi / rounds remains.
    EXPECT_NEAR(*round_autocorrelation(rounds), phi, phi == 0 ? 0.012 : 0.08) << phi;
  }
}

TEST(RoundAutocorrelation, Limits) {
  EXPECT_FALSE(round_autocorrelation(std::vector<Values>{{1, 2}, {1}}));
  EXPECT_FALSE(round_autocorrelation(std::vector<Values>{{1, 1, 1}}));
  EXPECT_LT(*round_autocorrelation(std::vector<Values>{{1, -1, 1, -1, 1, -1}}), -0.6);
}

}  // namespace
}  // namespace diptych::reports
