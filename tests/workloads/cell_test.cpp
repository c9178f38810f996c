// Validity before speed: arms that disagree, targets that are missed and programs that throw are never timed.

#include "workloads/harness/cell/cell.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "reports/run/schema.h"
#include "reports/views/ladder_table.h"
#include "reports/views/table.h"
#include "tests/workloads/cells.h"
#include "workloads/harness/cell/ulp.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;
using testing::adding;
using testing::Adding;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::measure;
using testing::run_with_cell;
using ::testing::SizeIs;

void expect_refused(const json& cell, const std::string& reason) {
  EXPECT_EQ(cell["validity"]["agree"], false);
  ASSERT_TRUE(cell["validity"]["reason"].is_string()) << cell;
  EXPECT_THAT(cell["validity"]["reason"].get<std::string>(), HasSubstr(reason));
  EXPECT_THAT(cell["processes"], IsEmpty());
}

/// A rung that need not keep every bit, for want of one in the ladder: its program's inputs differ.
json measure_inexact(const Workload& workload) {
  Arm fast = *find_arm("graph");
  fast.name = "+fast";
  fast.rung = "";
  fast.exact = false;
  const CellPlan plan{.workload = &workload,
                      .arms = {find_arm("eager"), find_arm("graph"), &fast},
                      .settings = {.process_seed = 5, .layout_seed = 9, .rounds = 4, .block_seconds = 0.0005},
                      .full_check = true};
  return measure_cell(plan, [](const std::string&) {});
}

// 1 + 3 * 2^-22 + 1 is three numbers above 2 in f32, whose neighbours are 2^-22 apart there. Later steps are far off.
TEST(Cell, AnInexactArmShowsItsDistanceInTheLastPlace) {
  const json cell = measure_inexact(adding({.output = [](int instance, std::int64_t step) {
    return instance < 2 ? 0 : step == 0 ? 3 * std::ldexp(1, -22) : 0.25;
  }}));
  EXPECT_EQ(cell["validity"]["agree"], true) << cell["validity"];
  EXPECT_FALSE(cell["arms"][1].contains("ulp"));
  EXPECT_EQ(cell["arms"][2]["ulp"], 3);
  EXPECT_THAT(cell["validity"]["checks"].dump(),
              AllOf(HasSubstr("bitwise equal between 2 arms"), HasSubstr("+fast within 3 ULP of eager")));
  const json run = run_with_cell(cell);
  EXPECT_EQ(run["cells"][0]["ladder"]["rungs"][0]["ulp"], 0);
  EXPECT_EQ(run["cells"][0]["ladder"]["rungs"][1]["ulp"], 3);
  EXPECT_THAT(reports::render_ladder(run), HasSubstr("3 ULP"));
}

TEST(Cell, AnInexactArmMayNotGiveNaN) {
  const json cell = measure_inexact(adding({.output = [](int instance, std::int64_t) {
    return instance < 2 ? 0 : std::numeric_limits<double>::quiet_NaN();
  }}));
  EXPECT_EQ(cell["validity"]["agree"], false);
  EXPECT_THAT(cell["validity"]["reason"].get<std::string>(), HasSubstr("eager and +fast are no numbers to compare"));
}

TEST(UlpDistance, CountsTheNumbersBetween) {
  const auto f32 = [](double value) { return full({1}, value, DType::float32); };
  EXPECT_EQ(ulp_distance(f32(1), f32(1 + std::ldexp(1, -23))), 1);
  EXPECT_EQ(ulp_distance(f32(1), f32(1 - std::ldexp(1, -24))), 1);
  EXPECT_EQ(ulp_distance(f32(0.0), f32(-0.0)), 0);
  EXPECT_EQ(ulp_distance(f32(std::ldexp(1, -149)), f32(-std::ldexp(1, -149))), 2)
      << "the smallest on both sides of zero";
  EXPECT_EQ(ulp_distance(f32(-1), f32(1)), 2.0 * 0x3f800000);
  const auto f64 = [](double value) { return full({1}, value, DType::float64); };
  EXPECT_EQ(ulp_distance(f64(1), f64(1 + std::ldexp(1, -52))), 1);
  const auto bf16 = [](double value) { return full({1}, value, DType::bfloat16); };
  EXPECT_EQ(ulp_distance(bf16(1), bf16(1 + std::ldexp(1, -6))), 2);
  EXPECT_EQ(ulp_distance(f32(1), f64(1)), std::nullopt);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(ulp_distance(f32(nan), f32(nan)), 0);
  EXPECT_EQ(ulp_distance(f32(nan), f32(1)), std::nullopt);
  EXPECT_EQ(ulp_distance(full({1}, 3, DType::int32), full({1}, 4, DType::int32)), std::nullopt);
}

TEST(Cell, ThatDisagreesIsNotTimed) {
  Adding::Behaviour behaviour;
  behaviour.output = [](int instance, std::int64_t) { return instance == 1 ? 1e-6 : 0.0; };
  expect_refused(measure(adding(behaviour)), "output 0 of eager and replay differ in step 0");
}

TEST(Cell, ThatDisagreesLateOrInTheLastArmIsFound) {
  Adding::Behaviour behaviour;
  behaviour.output = [](int instance, std::int64_t step) { return instance == 2 && step == 2 ? 1.0 : 0.0; };
  expect_refused(measure(adding(behaviour)), "output 0 of eager and graph differ in step 2");
  // Later processes look only at the first step.
  EXPECT_EQ(measure(adding(behaviour), false)["validity"]["agree"], true);
}

TEST(Cell, OneBitIsADisagreement) {
  Adding::Behaviour behaviour;  // 2 + ulp(2) against 2
  behaviour.output = [](int instance, std::int64_t) { return instance == 1 ? 0x1p-22 : 0.0; };
  expect_refused(measure(adding(behaviour)), "differ");
}

TEST(Cell, SameNaNsAgree) {
  Adding::Behaviour behaviour;
  behaviour.output = [](int, std::int64_t) { return std::numeric_limits<double>::quiet_NaN(); };
  EXPECT_EQ(measure(adding(behaviour))["validity"]["agree"], true);
}

TEST(Cell, StatesCountToo) {
  Adding::Behaviour behaviour;
  behaviour.state = [](int instance) { return instance == 2 ? 1.0 : 0.0; };
  expect_refused(measure(adding(behaviour)), "'counter' of eager and graph differ after 3 steps");
}

// The longer list must not be cut to the shorter one.
TEST(Cell, NumbersOfOutputsCountToo) {
  Adding::Behaviour behaviour;
  behaviour.outputs = [](int instance) { return instance == 2 ? std::size_t{2} : std::size_t{1}; };
  expect_refused(measure(adding(behaviour)), "outputs");
  behaviour.outputs = [](int instance) { return instance == 2 ? std::size_t{1} : std::size_t{2}; };
  expect_refused(measure(adding(behaviour)), "outputs");
}

// The file has no arms then, and the schema wants one: `diptych report` refuses what `diptych run` wrote.
TEST(Cell, ThatDisagreesGivesAValidRun) {
  Adding::Behaviour behaviour;
  behaviour.output = [](int instance, std::int64_t) { return instance; };
  const json run = run_with_cell(measure(adding(behaviour)));
  EXPECT_THAT(reports::validate(run), IsEmpty());
  ASSERT_FALSE(run["cells"][0]["comparisons"].empty());
  for (const json& comparison : run["cells"][0]["comparisons"]) {
    EXPECT_EQ(comparison["verdict"]["verdict"], "INVALID");
  }
}

TEST(Cell, ThatDisagreesIsShownAsInvalid) {
  Adding::Behaviour behaviour;
  behaviour.output = [](int instance, std::int64_t) { return instance; };
  const json run = run_with_cell(measure(adding(behaviour)));
  EXPECT_THAT(reports::render_table(run, {false, 160}), HasSubstr("INVALID"));
}

TEST(Cell, MetricTargetsDecide) {
  Adding::Behaviour behaviour;
  behaviour.metrics = {{"held-out accuracy", 0.96, "fraction"}};
  const json good = measure(adding(behaviour, {{"held-out accuracy", 0.95}}));
  EXPECT_EQ(good["validity"]["agree"], true);
  ASSERT_THAT(good["metrics"], SizeIs(3));
  EXPECT_EQ(good["metrics"][0]["value"], 0.96);

  behaviour.metrics[0].value = 0.94;
  expect_refused(measure(adding(behaviour, {{"held-out accuracy", 0.95}})), "held-out accuracy of ");
  behaviour.metrics[0].value = std::numeric_limits<double>::quiet_NaN();
  expect_refused(measure(adding(behaviour, {{"held-out accuracy", 0.95}})), "below 0.95");
}

// A target whose metric is misspelt, or not given, would hold unnoticed.
TEST(Cell, AMissingMetricMissesItsTarget) {
  expect_refused(measure(adding({}, {{"held-out accuracy", 0.95}})), "held-out accuracy");
}

TEST(Cell, ThatThrowsSaysWhy) {
  for (int instance = 0; instance < 3; ++instance) {
    Adding::Behaviour behaviour;
    behaviour.throws_in_instance = instance;
    const Workload workload = adding(behaviour);
    try {
      measure(workload);
      FAIL() << "no exception";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("the program broke"));
    }
  }
}

}  // namespace
}  // namespace diptych::workloads
