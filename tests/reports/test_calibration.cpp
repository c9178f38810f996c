// When times may decide. Bounds: Clopper-Pearson at zero alarms is 1 - 0.05^(1/n), by hand.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/gate/calibration.h"
#include "reports/gate/gate.h"
#include "reports/run/json_access.h"
#include "tests/reports/sample_run.h"

namespace diptych::reports {
namespace {

using ::testing::HasSubstr;
using testing::sample_run;

Json environment(const std::string& version = "0.1.0", const std::string& model = "CPU A") {
  return {{"cpu", {{"model", model}}}, {"build", {{"version", version}}}};
}

Json gate_of(int code) {
  return {{"verdict", code == 0   ? "PASS"
                      : code == 2 ? "REGRESSED"
                                  : "CANNOT TELL"},
          {"exit_code", code},
          {"stages", {{"flagged", code == 2 ? 1 : 0}}},
          {"rows",
           {{{"workload", "mlp/digits"},
             {"arm", "graph"},
             {"tier", "time"},
             {"verdict", code == 2 ? "REGRESSED" : "EQUIVALENT"},
             {"detectable", 0.03}}}}};
}

Json calibrated(int passes, int alarms = 0, int undecided = 0) {
  static const Json run = sample_run();
  Json calibration = new_calibration(environment(), {{"workloads", {"mlp/digits"}}});
  for (const auto& [count, code] : {std::pair(passes, 0), std::pair(alarms, 2), std::pair(undecided, 3)}) {
    for (int i = 0; i < count; ++i) {
      add_calibration_run(calibration, run, run, gate_of(code));
    }
  }
  return calibration;
}

TEST(Calibration, BoundsTheRateOfFalseAlarms) {
  const Json summary = calibrated(20)["summary"];
  EXPECT_EQ(summary["runs"], 20);
  EXPECT_EQ(summary["alarms"], 0);
  EXPECT_NEAR(summary["upper_95"].get<double>(), 1 - std::pow(0.05, 1.0 / 20), 1e-9);
  EXPECT_NEAR(summary["cells"][0]["detectable"].get<double>(), 0.03, 1e-12);
  EXPECT_EQ(summary["cells"][0]["cell"], "mlp/digits/graph");
  const Json mixed = calibrated(17, 3)["summary"];
  EXPECT_NEAR(mixed["rate"].get<double>(), 0.15, 1e-12);
  EXPECT_EQ(mixed["cells"][0]["alarms"], 3);
}

TEST(Calibration, RunsThatCouldNotTellCountForNeither) {
  const Json summary = calibrated(10, 0, 90)["summary"];
  EXPECT_EQ(summary["cannot_tell"], 90);
  EXPECT_NEAR(summary["upper_95"].get<double>(), 1 - std::pow(0.05, 1.0 / 10), 1e-9);
  EXPECT_FALSE(match_calibration(calibrated(10, 0, 90), environment()).holds);
}

TEST(Calibration, KeepsTheEffectOfEveryProcess) {
  const Json calibration = calibrated(1);
  EXPECT_EQ(calibration["runs"][0]["log_ratios"]["mlp/digits/graph"].size(), 8u);
  EXPECT_EQ(calibration["runs"][0]["log_ratios"]["mlp/digits/graph"][0], 0.0);
}

TEST(Calibration, HoldsForItsMachineAndVersionOnly) {
  const Json calibration = calibrated(20);
  EXPECT_TRUE(match_calibration(calibration, environment()).holds);
  EXPECT_TRUE(match_calibration(calibration, environment("0.1.7")).holds);
  EXPECT_FALSE(match_calibration(calibration, environment("0.2.0")).holds);
  EXPECT_FALSE(match_calibration(calibration, environment("1.1.0")).holds);
  const CalibrationMatch other = match_calibration(calibration, environment("0.1.0", "CPU B"));
  EXPECT_FALSE(other.holds);
  EXPECT_THAT(other.note, HasSubstr("another machine"));
  EXPECT_FALSE(match_calibration(calibration, Json::object()).holds);
}

TEST(Calibration, TooFewRunsOrTooManyAlarmsLetNothingDecide) {
  EXPECT_FALSE(match_calibration(calibrated(0), environment()).holds);
  EXPECT_FALSE(match_calibration(calibrated(17), environment()).holds);  // 16.2 %
  EXPECT_TRUE(match_calibration(calibrated(19), environment()).holds);   // 14.6 %
  EXPECT_FALSE(match_calibration(calibrated(25, 2), environment()).holds);
}

TEST(Calibration, WhatTheFileSaysOfItselfIsNotBelieved) {
  Json boasting = calibrated(2);
  boasting["summary"]["upper_95"] = 0.0;
  EXPECT_FALSE(match_calibration(boasting, environment()).holds);
}

/// A gate of two rows, eager and graph, with these verdicts and detectable changes of the graph row.
Json gate_of_power(const std::string& verdict, const Json& detectable, const std::string& tier = "time") {
  const auto row = [&](const std::string& arm, const std::string& said) {
    return Json{{"workload", "mlp/digits"}, {"arm", arm},      {"tier", tier},
                {"metric", tier},           {"verdict", said}, {"detectable", detectable}};
  };
  return {{"verdict", "REGRESSED"},
          {"exit_code", 2},
          {"stages", {{"flagged", 1}}},
          {"rows", {row("eager", "EQUIVALENT"), row("graph", verdict)}}};
}

TEST(Calibration, PowerCountsTheRowsThatClaimToDetectTheChange) {
  const Json run = sample_run();
  Json study = new_calibration(environment(), {{"injection", {{"time", 0.05}, {"arms", {"graph"}}}}});
  for (int i = 0; i < 18; ++i) {
    add_calibration_run(study, run, run, gate_of_power("REGRESSED", 0.04));
  }
  add_calibration_run(study, run, run, gate_of_power("INCONCLUSIVE", 0.05));  // claims it, and misses it
  add_calibration_run(study, run, run, gate_of_power("INCONCLUSIVE", 0.051));
  add_calibration_run(study, run, run, gate_of_power("CONTAMINATED", 0.03));
  add_calibration_run(study, run, run, gate_of_power("REGRESSED", nullptr));
  const Json power = study["summary"]["power"];
  EXPECT_EQ(power["rows"], 22);
  EXPECT_EQ(power["claimed"], 19);
  EXPECT_EQ(power["caught"], 18);
  EXPECT_NEAR(power["rate"].get<double>(), 18.0 / 19, 1e-12);
  // Clopper and Pearson: 19 p^18 (1 - p) + p^19 = 0.05 at the lower bound.
  const double p = power["lower_95"].get<double>();
  EXPECT_NEAR(19 * std::pow(p, 18) * (1 - p) + std::pow(p, 19), 0.05, 1e-6);
  EXPECT_FALSE(match_calibration(study, environment()).holds) << "no A/A runs";
}

TEST(Calibration, CountedChangesMustAllBeSeen) {
  const Json run = sample_run();
  Json study = new_calibration(environment(), {{"injection", {{"instructions", 0.01}, {"arms", {"graph"}}}}});
  add_calibration_run(study, run, run, gate_of_power("REGRESSED", nullptr, "instructions"));
  add_calibration_run(study, run, run, gate_of_power("EQUIVALENT", nullptr, "instructions"));
  EXPECT_EQ(study["summary"]["power"]["claimed"], 2);
  EXPECT_EQ(study["summary"]["power"]["caught"], 1);
  EXPECT_FALSE(calibrated(1)["summary"].contains("power"));
}

TEST(Calibration, GatesAreDrawnAgainFromTheProcessesOfAllRuns) {
  Json calibration = calibrated(3);
  EXPECT_TRUE(resampled_gates(calibrated(0), 10, 1).is_null());
  EXPECT_EQ(resampled_gates(calibration, 1000, 1)["rate"], 0.0);
  // The same change of 10 % in every process is an alarm in every draw.
  for (Json& run : calibration["runs"]) {
    for (Json& effect : run["log_ratios"]["mlp/digits/graph"]) {
      effect = 0.1;
    }
  }
  EXPECT_EQ(resampled_gates(calibration, 1000, 1)["rate"], 1.0);
}

TEST(Calibration, RatiosThatNoClockMeasuresAreRefusedByTheirField) {
  for (const Json& bad : {Json(1e300), Json(-70), Json("NaN"), Json(nullptr), Json::array()}) {
    Json calibration = new_calibration(environment(), {{"processes", 8}});
    calibration["runs"].push_back({{"log_ratios", {{"mlp/digits/graph", {0.001, bad}}}}});
    try {
      check_calibration(calibration);
      ADD_FAILURE() << bad << " is taken for a ratio";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("/runs/0/log_ratios/mlp/digits/graph"));
    }
  }
}

TEST(Calibration, OtherDocumentsAreRefused) {
  for (const Json& other :
       {Json(nullptr), Json::array(), Json{{"schema", "diptych.run/1"}},
        Json{{"schema", "diptych.aa/2"}, {"runs", Json::array()}}, Json{{"schema", "diptych.aa/1"}}}) {
    EXPECT_THROW(check_calibration(other), Error) << other.dump();
  }
}

}  // namespace
}  // namespace diptych::reports
