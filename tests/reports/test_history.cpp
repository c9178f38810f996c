// Runs whose truth is known, as a history: order, what is compared with what, levels, and what splits a series.

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/analysis/change_points.h"
#include "reports/gate/compare.h"
#include "reports/gate/documents.h"
#include "reports/history/history.h"
#include "reports/run/run.h"
#include "reports/views/history_views.h"
#include "tests/reports/history_runs.h"

namespace diptych::reports {
namespace {

using testing::dated_run;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::history_of;
using ::testing::IsEmpty;
using testing::SampleSize;
using testing::series_of;
using ::testing::SizeIs;

std::vector<std::string> verdicts_of(const HistorySeries& series) {
  std::vector<std::string> out;
  for (const HistoryPoint& point : series.points) {
    out.push_back(point_verdict(point));
  }
  return out;
}

TEST(History, IsInTheOrderOfTheRunsStart) {
  const History history = history_of({dated_run(5), dated_run(1), dated_run(3)});
  std::vector<std::string> folders;
  for (const RunOfHistory& run : history.runs) {
    folders.push_back(run.folder);
  }
  EXPECT_THAT(folders, ElementsAre("r1", "r2", "r0"));
  ASSERT_THAT(history.series, SizeIs(3)) << "an arm each";
  for (const HistorySeries& series : history.series) {
    ASSERT_THAT(series.points, SizeIs(3));
    EXPECT_FALSE(series.points[0].base);
    EXPECT_EQ(series.points[1].base, 0U);
    EXPECT_EQ(series.points[2].base, 1U);
  }
}

// The verdict is that of `diptych compare`, whose test is compared here by name and by number.
TEST(History, VerdictsAreThoseOfCompare) {
  const Json first = dated_run(0);
  const Json second = dated_run(1, 1.2);
  const History history = history_of({first, second});
  const Json comparison = compare_runs(first, second);
  int compared = 0;
  for (const ComparisonRow row : ComparisonDocument(comparison).rows()) {
    if (row.metric() == "time") {
      const HistoryPoint& point = series_of(history, row.arm()).points.back();
      EXPECT_EQ(point.verdict, row.verdict());
      EXPECT_EQ(point.detail, row.detail());
      EXPECT_DOUBLE_EQ(point.ratio->value, row.ratio()->value);
      EXPECT_NEAR(point.ratio->value, 1.2, 0.03);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 3);
  EXPECT_EQ(history.count(Trend::slower), 3U);
}

TEST(History, AContaminatedRunIsNoBase) {
  Json noisy = dated_run(1, 1.5);
  for (Json& process : noisy["cells"][0]["processes"]) {
    process["control_drift"] = 0.2;
  }
  const History history = history_of({dated_run(0), noisy, dated_run(2)});
  const HistorySeries& series = series_of(history);
  EXPECT_THAT(verdicts_of(series), ElementsAre("first", "CONTAMINATED", "EQUIVALENT"));
  EXPECT_EQ(series.points[2].base, 0U);
  EXPECT_EQ(history.count(Trend::slower), 0U);
}

TEST(History, AnInvalidRunIsNoBase) {
  Json broken = dated_run(1);
  broken["cells"][0]["validity"] = {{"agree", false}, {"checks", Json::array()}, {"reason", "losses differ"}};
  const History history = history_of({broken, dated_run(2), dated_run(3)});
  const HistorySeries& series = series_of(history);
  EXPECT_THAT(verdicts_of(series), ElementsAre("INVALID", "first", "EQUIVALENT"));
  EXPECT_THAT(series.points[0].detail, HasSubstr("losses differ"));
}

TEST(History, AQuickRunDoesNotStandBetweenTwoThatCanBeJudged) {
  const SampleSize quick{"quick", 3, 6};
  const History history = history_of({dated_run(0), dated_run(1, 1, quick), dated_run(2, 1.2)});
  EXPECT_THAT(verdicts_of(series_of(history)), ElementsAre("first", "INCONCLUSIVE", "REGRESSED"));
  EXPECT_EQ(series_of(history).points[2].base, 0U);
}

TEST(History, AMethodSplitsASeriesAndIsNoRegression) {
  Json threads = dated_run(1, 0.5);
  threads["threads"] = 2;
  Json again = dated_run(2, 0.5);
  again["threads"] = 2;
  const History history = history_of({dated_run(0), threads, again, dated_run(3)});
  EXPECT_EQ(history.count(Trend::slower) + history.count(Trend::faster), 0U);
  ASSERT_THAT(history.series, SizeIs(6));
  std::vector<const HistorySeries*> of_graph;
  for (const HistorySeries& series : history.series) {
    if (series.arm == "graph") {
      of_graph.push_back(&series);
    }
  }
  ASSERT_THAT(of_graph, SizeIs(2));
  EXPECT_TRUE(of_graph[0]->is_current) << "the first method is back";
  EXPECT_THAT(verdicts_of(*of_graph[0]), ElementsAre("first", "EQUIVALENT"));
  EXPECT_EQ(of_graph[0]->points[1].base, 0U) << "the run before that was measured in the same way";
  EXPECT_FALSE(of_graph[1]->is_current);
  EXPECT_EQ(of_graph[1]->method_change, "threads 1 -> 2; threads of graph as the run -> 1");
  EXPECT_THAT(verdicts_of(*of_graph[1]), ElementsAre("METHOD CHANGED", "EQUIVALENT"));
  EXPECT_THAT(of_graph[1]->points[0].detail, HasSubstr("threads 1 -> 2"));
}

TEST(History, MachinesAreApart) {
  Json elsewhere = dated_run(1, 2);
  elsewhere["environment"]["cpu"]["model"] = "Another CPU";
  const History history = history_of({dated_run(0), elsewhere, dated_run(2)});
  ASSERT_THAT(history.machines, SizeIs(2));
  EXPECT_EQ(history.machines[0].name, "A");
  EXPECT_EQ(history.machines[0].runs, 2U);
  EXPECT_EQ(history.machines[0].last, 2U);
  EXPECT_EQ(history.machines[1].model, "Another CPU");
  EXPECT_THAT(history.machines[1].differences, ElementsAre(HasSubstr("cpu.model")));
  EXPECT_THAT(history.series, SizeIs(6));
  EXPECT_EQ(history.count(Trend::slower), 0U);
  EXPECT_EQ(history.count(Trend::first), 3U) << "on the other machine";
}

TEST(History, TimesOfAnUnknownMachineAreNotJudged) {
  std::vector<Json> runs;
  for (int day = 0; day < 8; ++day) {
    runs.push_back(dated_run(day, day < 4 ? 1 : 2));
    runs.back()["environment"] = Json::object();
  }
  const History history = history_of(runs);
  ASSERT_THAT(history.machines, SizeIs(1));
  EXPECT_FALSE(history.machines[0].is_known());
  EXPECT_EQ(series_of(history).points[4].verdict, Verdict::invalid);
  EXPECT_THAT(series_of(history).levels, IsEmpty());
  EXPECT_EQ(history.count(Trend::cannot_tell), 3U);
}

TEST(History, CountsOfQuickRunsAreJudged) {
  const SampleSize quick{"quick", 3, 6};
  Json more = dated_run(1, 1, quick);
  more["cells"][0]["arms"][2]["exact"]["nodes"] = 99;
  const History history = history_of({dated_run(0, 1, quick), more});
  const HistoryPoint& point = series_of(history).points.back();
  EXPECT_THAT(point.counts, ElementsAre("nodes 98 -> 99"));
  EXPECT_TRUE(point.counts_are_worse);
  EXPECT_EQ(point.verdict, Verdict::inconclusive);
  EXPECT_THAT(history_sentences(history).front(), HasSubstr("mlp/digits/graph"));
}

TEST(History, ARunThatCountedOnlyHidesNoTimes) {
  Json counted = dated_run(2);
  counted["plan"]["metrics"] = {"exact"};
  for (Json& arm : counted["cells"][0]["arms"]) {
    arm["seconds"] = nullptr;
  }
  for (Json& process : counted["cells"][0]["processes"]) {
    process["rounds"] = Json::array();
  }
  counted["cells"][0]["arms"][2]["exact"]["nodes"] = 97;
  const History history = history_of({dated_run(0), dated_run(1, 1.2), counted, dated_run(3, 1.2)});
  const HistorySeries& series = series_of(history);
  EXPECT_THAT(verdicts_of(series), ElementsAre("first", "REGRESSED", "not timed", "EQUIVALENT"));
  EXPECT_THAT(series.points[2].counts, ElementsAre("nodes 98 -> 97"));
  EXPECT_EQ(series.points[3].base, 1U) << "the newest time";
  EXPECT_EQ(series.latest.trend, Trend::slower);
  EXPECT_EQ(history_of({dated_run(0), dated_run(1), counted}).count(Trend::same), 3U);
}

TEST(History, ASlowdownOnPurposeIsNoPartOfIt) {
  Json slowed = dated_run(1, 2);
  slowed["injected"] = {{"time", 0.1}, {"instructions", 0}, {"arms", Json::array()}};
  EXPECT_THROW(history_of({slowed}), Error);
}

// Quick runs have no verdict, but many of them show a level: 4 % at the fifth of ten runs, with runs that vary by 0.5
// %.
TEST(History, LevelsShowWhatSingleRunsCannot) {
  const SampleSize quick{"quick", 3, 6, 0.005, 0.01};
  std::vector<Json> runs;
  for (int day = 0; day < 12; ++day) {
    runs.push_back(dated_run(day, day < 5 ? 1 : 1.05, quick));
  }
  const History history = history_of(runs);
  const HistorySeries& series = series_of(history);
  ASSERT_THAT(series.levels, SizeIs(2));
  EXPECT_EQ(series.levels[1].begin, 5U);
  EXPECT_EQ(series.levels[0].end, 5U);
  EXPECT_EQ(series.levels[1].end, 12U);
  EXPECT_NEAR(series.levels[1].seconds / series.levels[0].seconds, 1.05, 0.01);
  EXPECT_EQ(series.latest.trend, Trend::slower);
  EXPECT_TRUE(series.latest.is_level);
  EXPECT_EQ(series.latest.base, 4U);
  EXPECT_EQ(series.latest.head, 5U);
  EXPECT_NEAR(series.latest.ratio, 1.05, 0.01);
}

TEST(History, WhatIsLongPastIsNotLately) {
  std::vector<Json> runs;
  for (int day = 0; day < 14; ++day) {
    runs.push_back(dated_run(day, day < 3 ? 1 : 1.2));
  }
  const History history = history_of(runs);
  EXPECT_THAT(series_of(history).levels, SizeIs(2));
  EXPECT_EQ(history.count(Trend::slower), 0U);
  EXPECT_EQ(history.count(Trend::same), 3U);
}

TEST(History, ASlowRunThatPassedIsNoChange) {
  const History history = history_of({dated_run(0), dated_run(1), dated_run(2, 1.3), dated_run(3), dated_run(4)});
  EXPECT_THAT(verdicts_of(series_of(history)),
              ElementsAre("first", "EQUIVALENT", "REGRESSED", "IMPROVED", "EQUIVALENT"));
  EXPECT_EQ(history.count(Trend::same), 3U);
}

TEST(History, TheLargestSlowdownComesFirst) {
  const auto run = [](int day, double eager, double graph) {
    testing::SampleCell cell;
    cell.seconds[0] *= eager;
    cell.seconds[2] *= graph;
    Json out = testing::analysed_run({cell}, {.seed = static_cast<std::uint64_t>(day) + 1});
    out["created"] = "2026-03-0" + std::to_string(day + 1) + "T00:00:00Z";
    return out;
  };
  const History history = history_of({run(0, 1, 1), run(1, 0.6, 1.2)});
  EXPECT_EQ(history.series[0].arm, "graph");
  EXPECT_EQ(history.series[1].arm, "eager");
  EXPECT_EQ(history.series[1].latest.trend, Trend::faster);
  EXPECT_THAT(history_headline(history),
              HasSubstr("2 runs from 2026-03-01 to 2026-03-02 on one machine: of 3 cells, 1 is slower lately "
                        "(mlp/digits/graph +2"));
  const auto next = history_next(history);
  ASSERT_THAT(next, SizeIs(1)) << "no revisions are recorded";
  EXPECT_EQ(next[0].command, "diptych report out/r0 out/r1");
}

TEST(History, RevisionsGoIntoTheGate) {
  Json base = dated_run(0);
  Json head = dated_run(1, 1.2);
  base["environment"]["build"] = {{"git_sha", std::string(40, 'a')}, {"git_dirty", false}};
  head["environment"]["build"] = {{"git_sha", std::string(40, 'b')}, {"git_dirty", false}};
  const auto next = history_next(history_of({base, head}));
  ASSERT_THAT(next, SizeIs(2));
  EXPECT_EQ(next[1].command, "diptych gate --base aaaaaaaaaaaa --head bbbbbbbbbbbb --workloads mlp/digits");
  head["environment"]["build"]["git_dirty"] = true;
  EXPECT_THAT(history_next(history_of({base, head})), SizeIs(1)) << "that build can't be made again";
}

TEST(History, ARunWithoutFiguresIsListed) {
  Json empty = dated_run(1);
  empty["cells"] = Json::array();
  const History history = history_of({empty});
  EXPECT_THAT(history.runs, SizeIs(1));
  EXPECT_THAT(history.series, IsEmpty());
  EXPECT_EQ(history_headline(history), "1 run of 2026-01-02 on one machine: they have no figures");
}

TEST(History, TheDocumentHasEveryPointAndCanBeCut) {
  std::vector<Json> runs;
  for (int day = 0; day < 7; ++day) {
    runs.push_back(dated_run(day));
  }
  const History history = history_of(runs);
  const Json whole = history_document(history);
  EXPECT_EQ(whole["schema"], "diptych.history/1");
  EXPECT_THAT(whole["runs"], SizeIs(7));
  EXPECT_THAT(whole["series"][0]["points"], SizeIs(7));
  const Json cut = history_document(history, 2);
  EXPECT_THAT(cut["series"][0]["points"], SizeIs(2));
  EXPECT_EQ(cut["series"][0]["points_left_out"], 5);
  EXPECT_EQ(cut["series"][0]["points"][1], whole["series"][0]["points"][6]);
}

// ---- Levels of few values, as histories have them

/// How often, of 2,000 series of runs that vary by `noise`, there is more than one level.
double share_with_changes(std::size_t count, double noise, double step, std::size_t after) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  int changed = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> values;
    for (std::size_t k = 0; k < count; ++k) {
      values.push_back(noise * normal(random) + (k < after ? 0 : step));
    }
    changed += levels_of(values, kShortestLevel, std::max(0.005, 0.7 * noise)).size() > 1 ? 1 : 0;
  }
  return changed / 2000.0;
}

TEST(HistoryLevels, AreSeldomMadeUpAndLargeStepsAreFound) {
  for (const std::size_t count : {6U, 8U, 10U, 14U, 20U, 40U}) {
    for (const double noise : {0.003, 0.01, 0.03}) {
      EXPECT_LE(share_with_changes(count, noise, 0, count), 0.02) << count << " runs that vary by " << noise;
    }
  }
  EXPECT_GE(share_with_changes(20, 0.01, 0.05, 17), 0.85) << "5 % since three runs";
  EXPECT_GE(share_with_changes(20, 0.01, 0.05, 10), 0.95);
  EXPECT_GE(share_with_changes(20, 0.03, 0.2, 17), 0.9);
}

TEST(HistoryLevels, OfTooFewValuesAreOne) {
  EXPECT_THAT(levels_of(std::vector<double>{}, 3), IsEmpty());
  for (std::size_t count = 1; count < 6; ++count) {
    std::vector<double> values(count, 0.0);
    values.back() = 5;
    EXPECT_THAT(levels_of(values, 3), SizeIs(1));
  }
}

}  // namespace
}  // namespace diptych::reports
