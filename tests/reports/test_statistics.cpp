#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/statistics/distributions.h"
#include "reports/statistics/skewness.h"
#include "reports/statistics/statistics.h"
#include "reports/statistics/welch.h"

namespace diptych::reports {
namespace {

using ::testing::DoubleNear;
using Values = std::vector<double>;

// Percentage points of Student's t: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
struct TableEntry {
  double p, degrees, t;
};
constexpr TableEntry t_table[] = {
    {0.90, 1, 3.078},   {0.975, 1, 12.706},  {0.995, 1, 63.657}, {0.975, 2, 4.303},  {0.95, 3, 2.353},
    {0.975, 5, 2.571},  {0.975, 7, 2.365},   {0.90, 11, 1.363},  {0.995, 11, 3.106}, {0.975, 29, 2.045},
    {0.999, 10, 4.144}, {0.975, 100, 1.984}, {0.95, 60, 1.671},
};

TEST(StudentT, AgreesWithThePublishedTable) {
  for (const TableEntry& entry : t_table) {
    EXPECT_NEAR(student_t_quantile(entry.p, entry.degrees), entry.t, 6e-4) << entry.p << " " << entry.degrees;
    EXPECT_NEAR(student_t_quantile(1 - entry.p, entry.degrees), -entry.t, 6e-4);
  }
}

TEST(StudentT, AgreesWithTheClosedFormsOfOneAndTwoDegrees) {
  for (const double t : {-30.0, -2.5, -0.1, 0.0, 0.7, 4.0, 100.0}) {
    EXPECT_NEAR(student_t_cdf(t, 1), 0.5 + std::atan(t) / std::acos(-1.0), 1e-12);
    EXPECT_NEAR(student_t_cdf(t, 2), 0.5 + t / (2 * std::sqrt(2 + t * t)), 1e-12);
  }
}

TEST(StudentT, ApproachesTheNormalDistribution) { EXPECT_NEAR(student_t_quantile(0.975, 1e6), 1.959964, 1e-5); }

TEST(StudentT, QuantileInvertsTheDistribution) {
  for (const double degrees : {1.0, 2.0, 4.5, 11.0, 200.0}) {
    for (const double p : {0.001, 0.1, 0.5, 0.8, 0.9999}) {
      EXPECT_NEAR(student_t_cdf(student_t_quantile(p, degrees), degrees), p, 1e-10);
    }
  }
}

TEST(Median, OfOddEvenAndNothing) {
  EXPECT_DOUBLE_EQ(median(Values{3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median(Values{4, 1, 3, 2}), 2.5);
  EXPECT_THROW(median(Values{}), Error);
}

TEST(ProcessEffect, IsTheMedianLogRatioOfPairedRounds) {
  // Ratios 2, 4, 8: the pairs matter, not the medians of the columns.
  EXPECT_NEAR(process_effect(Values{2, 8, 4}, Values{1, 1, 1}), std::log(4), 1e-12);
  EXPECT_NEAR(process_effect(Values{1, 1}, Values{2, 2}), -std::log(2), 1e-12);
}

TEST(ProcessEffect, RefusesWhatIsNotATime) {
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(process_effect(Values{1}, Values{bad}), Error);
    EXPECT_THROW(process_effect(Values{bad}, Values{1}), Error);
    EXPECT_THROW(time_estimate(Values{1, bad}), Error);
  }
  EXPECT_THROW(process_effect(Values{1, 2}, Values{1}), Error);
  EXPECT_THROW(process_effect(Values{}, Values{}), Error);
}

TEST(MeanInterval, AgreesWithTheTextbookFormula) {
  // 1, 2, 3, 4, 5: mean 3, s = sqrt(2.5), t_{0.975,4} = 2.776.
  const Estimate e = mean_interval(Values{1, 2, 3, 4, 5});
  EXPECT_DOUBLE_EQ(e.value, 3);
  EXPECT_NEAR(*e.high - 3, 2.776 * std::sqrt(2.5 / 5), 1e-3);
  EXPECT_NEAR(3 - *e.low, 2.776 * std::sqrt(2.5 / 5), 1e-3);
}

TEST(MeanInterval, OfOneProcessHasNoBounds) {
  const Estimate e = mean_interval(Values{0.3});
  EXPECT_FALSE(e.low || e.high);
  EXPECT_FALSE(e.excludes(0));
}

// Eight values, one of them far out: mean 1, s = sqrt(8), standard error 1, third k-statistic 336 * 8 / 42 = 64 and
// skewness of the mean 64 / 8^2 = 1. The upper limit would lie beyond 1.75 t_{0.975,7} = 1.75 * 2.364624.
TEST(MeanInterval, ReachesFurtherOnTheSideOfALongTail) {
  const Values tail = {0, 0, 0, 8, 0, 0, 0, 0};
  EXPECT_NEAR(third_cumulant(tail), 64, 1e-12);
  const Estimate e = mean_interval(tail);
  EXPECT_NEAR(*e.low, 1 - 2.364624, 1e-6);
  EXPECT_NEAR(*e.high, 1 + 1.75 * 2.364624, 1e-6);
  EXPECT_NEAR(*minimum_detectable_effect(tail), 1.75 * 2.364624 + 1.414924, 1e-6);
  Values mirrored = tail;
  for (double& v : mirrored) {
    v = -v;
  }
  const Estimate m = mean_interval(mirrored);
  EXPECT_DOUBLE_EQ(*m.low, -*e.high);
  EXPECT_DOUBLE_EQ(*m.high, -*e.low);
}

TEST(ThirdCumulant, IsTheKStatistic) {
  // 0, 0, 0, 4: cubes of the distances from 1 add up to 24, times 4 / (3 * 2).
  EXPECT_DOUBLE_EQ(third_cumulant(Values{0, 0, 0, 4}), 16);
  EXPECT_EQ(third_cumulant(Values{1, 2, 3}), 0);
  EXPECT_EQ(third_cumulant(Values{1, 5}), 0);
}

// The limit solves Hall's cubic where that lies between Student's limit and 1.75 of it.
TEST(SkewLimit, SolvesTheCubicBetweenItsBounds) {
  int between = 0;
  for (double skewness = -1.2; skewness <= 1.2; skewness += 0.01) {
    for (const double t : {0.1, 1.0, 1.796, 2.365, 4.5}) {
      const auto cubic = [&](double x) {
        return x + skewness * x * x / 3 + skewness * skewness * x * x * x / 27 + skewness / 6;
      };
      const double limit = skew_limit(t, skewness);
      EXPECT_GE(limit, t);
      EXPECT_LE(limit, 1.75 * t * (1 + 1e-12));
      if (limit == t) {
        EXPECT_GE(cubic(t), t - 1e-9) << skewness;  // Student's limit is far enough
      } else if (limit < 1.75 * t) {
        EXPECT_NEAR(cubic(limit), t, 1e-9) << skewness;
        EXPECT_NEAR(skew_t(limit, skewness), t, 1e-9) << skewness;
        ++between;
      } else {
        EXPECT_LE(cubic(1.75 * t), t + 1e-9) << skewness;
      }
    }
  }
  EXPECT_GT(between, 50);
  EXPECT_DOUBLE_EQ(skew_limit(2, 0), 2);
  EXPECT_NEAR(skew_limit(2, -1e-7), 2, 1e-6) << "no digits are lost near zero";
  EXPECT_EQ(skew_limit(2, 1e300), 2);
}

TEST(SkewT, InvertsTheLimit) {
  for (double skewness = -1.2; skewness <= 1.2; skewness += 0.07) {
    for (double t = 0.2; t < 6; t += 0.31) {
      for (double limit = 0.15; limit < 9; limit += 0.37) {
        EXPECT_EQ(skew_limit(t, skewness) <= limit, t <= skew_t(limit, skewness)) << skewness << " " << t;
      }
    }
  }
}

// On normal data, where Student's interval is exact, a little more often than it says: skewness is seen where none is.
TEST(MeanInterval, CoversTheTruthAsOftenAsItSays) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal(0.1, 0.02);
  int covered = 0;
  int student = 0;
  constexpr int trials = 4000;
  for (int i = 0; i < trials; ++i) {
    Values effects(8);
    for (double& e : effects) {
      e = normal(random);
    }
    covered += mean_interval(effects).excludes(0.1) ? 0 : 1;
    student += effect_interval(*paired_effect(effects), 0.95).excludes(0.1) ? 0 : 1;
  }
  // Four standard errors of a binomial around 95 %.
  EXPECT_NEAR(student / static_cast<double>(trials), 0.95, 4 * std::sqrt(0.95 * 0.05 / trials));
  EXPECT_GE(covered, student);
  EXPECT_LE(covered, 0.97 * trials);
}

TEST(RatioEstimate, LivesOnTheLogScale) {
  const Estimate e = ratio_estimate(Values{std::log(2), std::log(8)});
  EXPECT_NEAR(e.value, 4, 1e-12);
  EXPECT_NEAR(*e.low * *e.high, 16, 1e-9);
}

TEST(CostEstimate, KeepsZeros) {
  EXPECT_DOUBLE_EQ(cost_estimate(Values{0, 0, 0}).value, 0);
  EXPECT_NEAR(cost_estimate(Values{1, 4}).value, 2, 1e-12);
  EXPECT_THROW(cost_estimate(Values{-1}), Error);
}

TEST(MinimumDetectableEffect, AgreesWithTheWorkedExample) {
  // P = 12, alpha = 0.01, power 0.9, s = 1 %: 1.3 %; s = 2 %: 2.6 %.
  Values effects;
  for (int i = 0; i < 6; ++i) {
    effects.insert(effects.end(), {1, -1});
  }
  const double scale = 0.01 / std::sqrt(12.0 / 11.0);
  for (double& e : effects) {
    e *= scale;
  }
  EXPECT_NEAR(*minimum_detectable_effect(effects, 0.01, 0.9), (3.106 + 1.363) * 0.01 / std::sqrt(12), 2e-6);
  EXPECT_FALSE(minimum_detectable_effect(Values{0.1}));
}

// A difference of the size that is named is found nine times in ten, skewed processes or not.
TEST(MinimumDetectableEffect, IsFoundAsOftenAsItSays) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, 0.01);
  std::exponential_distribution<double> exponential(100);
  for (const bool skewed : {false, true}) {
    const auto draw = [&] { return skewed ? exponential(random) - 0.01 : normal(random); };
    double named = 0;
    constexpr int trials = 4000;
    std::vector<Values> samples(trials, Values(8));
    for (Values& effects : samples) {
      std::generate(effects.begin(), effects.end(), draw);
      named += *minimum_detectable_effect(effects) / trials;
    }
    int found = 0;
    for (Values& effects : samples) {
      for (double& e : effects) {
        e += named;
      }
      found += mean_interval(effects).excludes(0) ? 1 : 0;
    }
    EXPECT_GT(found, 0.86 * trials) << skewed;
  }
}

TEST(Equivalent, NeedsTheWholeIntervalInside) {
  EXPECT_TRUE(equivalent(Values{0.001, -0.001, 0.002, -0.002}));
  EXPECT_FALSE(equivalent(Values{0.03, 0.031, 0.029, 0.03}));
  EXPECT_FALSE(equivalent(Values{0.05, -0.05, 0.04, -0.04}));
  EXPECT_FALSE(equivalent(Values{0.0}));
}

std::vector<ProcessCost> costs(double noise) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::vector<ProcessCost> out;
  for (int i = 0; i < 10; ++i) {
    const auto vary = [&] { return std::exp(noise * normal(random)); };
    out.push_back({1e-3 * vary(), 0.6e-3 * vary(), 0, 0.04 * vary()});
  }
  return out;
}

TEST(BreakEven, IsCompileCostOverSavingPerCall) {
  const BreakEven e = break_even(costs(0), 1);
  ASSERT_TRUE(e.reached);
  EXPECT_NEAR(*e.calls, 0.04 / 0.4e-3, 1e-9);
  EXPECT_NEAR(*e.low, 100, 1e-9);
  EXPECT_NEAR(*e.high, 100, 1e-9);
}

TEST(BreakEven, HasAnIntervalThatDependsOnTheSeedAlone) {
  const BreakEven a = break_even(costs(0.02), 5);
  const BreakEven b = break_even(costs(0.02), 5);
  ASSERT_TRUE(a.low && a.high);
  EXPECT_EQ(*a.low, *b.low);
  EXPECT_EQ(*a.high, *b.high);
  EXPECT_LT(*a.low, *a.calls);
  EXPECT_GT(*a.high, *a.calls);
  EXPECT_NEAR(*a.calls, 100, 5);
}

TEST(BreakEven, IsNotReachedWithoutAClearSaving) {
  std::vector<ProcessCost> slower = costs(0.01);
  for (ProcessCost& p : slower) {
    std::swap(p.base_seconds, p.arm_seconds);
  }
  EXPECT_FALSE(break_even(slower, 1).reached);
  EXPECT_FALSE(break_even(slower, 1).uncertain) << "the interval isn't the reason";
  std::vector<ProcessCost> unclear = costs(0.02);
  for (std::size_t i = 0; i < unclear.size(); ++i) {
    unclear[i].arm_seconds = unclear[i].base_seconds * (i % 2 == 0 ? 0.9 : 1.09);
  }
  EXPECT_FALSE(break_even(unclear, 1).reached);
  EXPECT_TRUE(break_even(unclear, 1).uncertain) << "0.9 x 1.09 is below 1: faster, but for the interval";
  EXPECT_FALSE(break_even(costs(0), 1).uncertain);
}

TEST(BreakEven, OfOneProcessHasNoInterval) {
  const BreakEven e = break_even(std::vector<ProcessCost>{{2, 1, 0, 10}}, 1);
  EXPECT_TRUE(e.reached);
  EXPECT_DOUBLE_EQ(*e.calls, 10);
  EXPECT_FALSE(e.low || e.high);
}

TEST(BreakEven, IsAtOnceWhenNothingIsPaid) {
  EXPECT_DOUBLE_EQ(*break_even(std::vector<ProcessCost>{{2, 1, 5, 1}, {2, 1, 5, 1}}, 1).calls, 0);
}

}  // namespace
}  // namespace diptych::reports
