// How a cell is timed: the order and number of its rounds, its warm-up and layouts, and clocks that can't be right.

#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "reports/analysis/analyse.h"
#include "reports/run/schema.h"
#include "reports/views/table.h"
#include "tests/workloads/cells.h"
#include "workloads/harness/cell/cell.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;
using testing::adding;
using testing::Adding;
using ::testing::AllOf;
using ::testing::DoubleEq;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::measure;
using testing::run_with_cell;
using ::testing::SizeIs;

TEST(Cell, ThatAgreesIsTimed) {
  const Workload workload = adding({});
  const json cell = measure(workload);
  EXPECT_EQ(cell["validity"]["agree"], true) << cell["validity"];
  EXPECT_THAT(cell["validity"]["checks"], SizeIs(2));
  EXPECT_THAT(cell["validity"]["checks"][0].get<std::string>(), HasSubstr("6 outputs of 3 steps bitwise equal"));
  ASSERT_THAT(cell["processes"], SizeIs(1));
  const json& process = cell["processes"][0];
  EXPECT_EQ(process["seed"], 5);
  EXPECT_GT(process["iterations"], 1);
  ASSERT_THAT(process["rounds"], SizeIs(4));
  for (const json& round : process["rounds"]) {
    EXPECT_THAT(round["order"], ::testing::UnorderedElementsAre("eager", "replay", "graph"));
    for (const auto& seconds : round["seconds"]) {
      EXPECT_GT(seconds.get<double>(), 0);
    }
  }
  EXPECT_THAT(reports::validate(run_with_cell(cell)), IsEmpty());
}

// It stands between eager and replay in the list, but takes no part in what separates those two.
TEST(Cell, ArmBesideTheLadderIsMeasuredWithoutARung) {
  const Workload workload = adding({});
  CellPlan plan{.workload = &workload,
                .settings = {.process_seed = 5, .layout_seed = 9, .rounds = 4, .block_seconds = 0.0005},
                .full_check = true};
  for (const char* arm : {"eager", "eager-pipelined", "replay"}) {
    plan.arms.push_back(find_arm(arm));
  }
  const json cell = measure_cell(plan, [](const std::string&) {});
  EXPECT_EQ(cell["arms"][1]["in_ladder"], false);
  EXPECT_EQ(cell["arms"][1]["cause"], "kernels beside dispatch");
  EXPECT_EQ(cell["arms"][1]["exact"]["dispatches"], cell["arms"][0]["exact"]["dispatches"]);
  EXPECT_EQ(cell["arms"][1]["exact"]["allocations"], cell["arms"][0]["exact"]["allocations"]);
  EXPECT_FALSE(cell["arms"][2].contains("in_ladder"));
  EXPECT_EQ(cell["arms"][2]["cause"], "dispatch and tape");
  const json run = run_with_cell(cell);
  EXPECT_THAT(reports::validate(run), IsEmpty());
  EXPECT_THAT(run["cells"][0]["comparisons"], SizeIs(2));
  ASSERT_THAT(run["cells"][0]["rungs"], SizeIs(1));
  EXPECT_EQ(run["cells"][0]["rungs"][0]["from"], "eager");
  EXPECT_EQ(run["cells"][0]["rungs"][0]["to"], "replay");
}

TEST(Cell, OrderOfTheRoundsComesFromTheProcessSeed) {
  const auto orders = [](std::uint64_t process_seed) {
    const Workload workload = adding({});
    std::vector<json> result;
    const json cell = measure(workload, true, process_seed);
    for (const json& round : cell["processes"][0]["rounds"]) {
      result.push_back(round["order"]);
    }
    return result;
  };
  const std::vector<json> first = orders(1);
  EXPECT_EQ(first, orders(1));
  int different = 0;
  for (std::uint64_t seed = 2; seed < 8; ++seed) {
    different += orders(seed) != first ? 1 : 0;
  }
  EXPECT_GE(different, 3);  // 1 in 36 is equal by chance
}

CellPlan cell_plan_of(const Workload& workload) {
  return {.workload = &workload,
          .arms = {find_arm("eager"), find_arm("graph")},
          .settings = {.seed = 1, .process_seed = 5, .layout_seed = 9, .rounds = 4, .block_seconds = 0.0005},
          .full_check = true};
}

const auto kSilent = [](const std::string&) {};

TEST(Cell, WarmupSeriesAreThoseOfTheCallsAfterTheFirst) {
  const Workload workload = adding({});
  const json cell = measure_cell(cell_plan_of(workload), kSilent);
  for (const json& arm : cell["processes"][0]["arms"]) {
    const std::vector<double> series = arm["warmup_seconds"];
    EXPECT_GE(series.size(), 3U);  // two of the check, one that is counted
    EXPECT_LE(series.size(), 64U);
    for (const double seconds : series) {
      EXPECT_GT(seconds, 0);
      EXPECT_LE(seconds, arm["worst_call_seconds"].get<double>());
    }
    EXPECT_GE(arm["worst_call_seconds"], arm["first_call_seconds"]);
  }
}

/// A program that takes `build_seconds` to make; counts how often it was made.
Workload slow_to_make(double build_seconds, int& made) {
  return {.name = "test/slow",
          .suite = "test",
          .title = "adds",
          .unit = "call",
          .check_steps = 1,
          .make = [build_seconds, &made](std::uint64_t) {
            ++made;
            for (const double start = steady_seconds(); steady_seconds() - start < build_seconds;) {
            }
            return std::make_unique<Adding>(Adding::Behaviour{}, 0);
          }};
}

// Rounds of 2 x 20 ms, of which a quarter may go into making the arms again.
TEST(Cell, ProgramsAreMadeAnewBetweenRoundsWhereThatCostsLittle) {
  for (const auto& [build_seconds, least, most] : {std::tuple{0.0, 2, 4}, std::tuple{0.2, 1, 1}}) {
    int made = 0;
    const Workload workload = slow_to_make(build_seconds, made);
    CellPlan plan = cell_plan_of(workload);
    plan.settings.block_seconds = 0.02;
    const json process = measure_cell(plan, kSilent)["processes"][0];
    EXPECT_EQ(process["layout_seed"], 9);
    EXPECT_GE(process["layouts"], least) << build_seconds;
    EXPECT_LE(process["layouts"], most) << build_seconds;
    EXPECT_EQ(made, 2 * process["layouts"].get<int>());
    EXPECT_THAT(process["rounds"], SizeIs(4));
  }
}

/// A program whose calls take `call_seconds`.
class Slow final : public Program {
 public:
  explicit Slow(double call_seconds) : call_seconds_(call_seconds), inputs_{full({1}, 1.0)} {}
  std::span<const Tensor> inputs(std::int64_t /*step*/) override {
    for (const double start = steady_seconds(); steady_seconds() - start < call_seconds_;) {
    }
    return inputs_;
  }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override { return {inputs[0] + 1.0}; }

 private:
  double call_seconds_;
  std::array<Tensor, 1> inputs_;
};

/// A product of matrices of `length` rows.
class Product final : public Program {
 public:
  explicit Product(std::int64_t length) : inputs_{full({length, length}, 1.0)} {}
  std::span<const Tensor> inputs(std::int64_t /*step*/) override { return inputs_; }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override { return {matmul(inputs[0], inputs[0])}; }

 private:
  std::array<Tensor, 1> inputs_;
};

// Blocks of 0.5 ms, ten of which are the limit. 2 n^3 operations at 50 billion a second and 3 n^2 floats at 10 billion
// bytes a second take 5.68 ms for n = 512, so 8 x 5 / 5.68 rounds; for n = 1024 the least number.
TEST(Cell, LongCallsGetFewerRoundsByTheirArithmetic) {
  for (const auto& [length, rounds] : {std::pair{64, 8}, {512, 7}, {1024, 5}}) {
    for (const std::vector<const Arm*>& arms :
         {std::vector{find_arm("eager"), find_arm("graph")}, {find_arm("eager")}}) {
      Workload workload = adding({});
      workload.check_steps = 1;
      workload.make = [length = length](std::uint64_t) { return std::make_unique<Product>(length); };
      CellPlan plan = cell_plan_of(workload);
      plan.arms = arms;
      plan.settings.rounds = 8;
      const json cell = measure_cell(plan, kSilent);
      EXPECT_THAT(cell["processes"][0]["rounds"], SizeIs(static_cast<std::size_t>(rounds))) << length;
      EXPECT_EQ(cell.contains("fewer_rounds"), rounds < 8);
      if (rounds < 8) {
        EXPECT_EQ(cell["fewer_rounds"]["planned"], 8);
        EXPECT_EQ(cell["fewer_rounds"]["timed"], rounds);
        EXPECT_THAT(reports::validate(run_with_cell(cell)), IsEmpty());
      }
    }
  }
}

// What a call takes when the machine is busy has no say: 40 ms of 0.5 ms are as many rounds as planned.
TEST(Cell, NoClockHasASayInTheNumberOfRounds) {
  Workload workload = adding({});
  workload.check_steps = 1;
  workload.make = [](std::uint64_t) { return std::make_unique<Slow>(0.04); };
  CellPlan plan = cell_plan_of(workload);
  plan.settings.rounds = 8;
  EXPECT_THAT(measure_cell(plan, kSilent)["processes"][0]["rounds"], SizeIs(8));
}

TEST(Cell, ProcessesSayWhatElseRanAndWhatTheHarnessCosts) {
  const Workload workload = adding({});
  const json cell = measure_cell(cell_plan_of(workload), kSilent);
  const json& process = cell["processes"][0];
  EXPECT_TRUE(process["load"]["before"].is_number()) << process["load"];
  EXPECT_TRUE(process["load"]["others_cpu"].is_number());
  EXPECT_GT(process["harness_overhead"], 0);
  EXPECT_LT(process["harness_overhead"], 0.5);  // of half a millisecond of very short calls, sanitizers too
}

TEST(Cell, WithoutRoundsCountsAndTimesNothing) {
  const Workload workload = adding({});
  CellPlan plan = cell_plan_of(workload);
  plan.settings.rounds = 0;
  json cell = measure_cell(plan, kSilent);
  EXPECT_THAT(cell["processes"], IsEmpty());
  EXPECT_EQ(cell["validity"]["agree"], true);
  EXPECT_TRUE(cell["arms"][0]["exact"]["dispatches"].is_number());
  json run = run_with_cell(cell);
  run["plan"] = {{"verb", "run"},
                 {"workloads", {"test/adding"}},
                 {"arms", {"eager", "graph"}},
                 {"default_arms", false},
                 {"shuffle_order", false},
                 {"metrics", {"exact"}},
                 {"block_seconds", 0.015},
                 {"benchmark_options", json::array()}};
  reports::analyse(run);
  EXPECT_THAT(reports::validate(run), IsEmpty());
  EXPECT_THAT(run["cells"][0]["comparisons"], IsEmpty());
  const std::string table = reports::render_table(run, {false, 160});
  EXPECT_THAT(table, AllOf(HasSubstr("counted, not timed"), HasSubstr("dispatches"), HasSubstr("test/adding")));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("INVALID")));
}

/// The real clock, but its `at`th reading is `step` seconds off.
Clock stepping(int at, double step) {
  return [at, step, reading = 0]() mutable { return steady_seconds() + (++reading == at ? step : 0); };
}

// Wherever it goes back or breaks, there is an error and no time.
TEST(Cell, AClockThatStepsIsAnError) {
  int errors = 0;
  for (int at = 2; at < 60; at += 3) {
    for (const double step :
         {-1e6, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      const Workload workload = adding({});
      CellPlan plan = cell_plan_of(workload);
      plan.clock = stepping(at, step);
      try {
        const json cell = measure_cell(plan, kSilent);
        // The first reading of a span was off: the span is then too long or the second one; or it is no span's.
        for (const json& round : cell["processes"][0]["rounds"]) {
          for (const json& seconds : round["seconds"]) {
            EXPECT_GT(seconds.get<double>(), 0);
          }
        }
      } catch (const std::exception& error) {
        EXPECT_THAT(error.what(), HasSubstr("clock-step"));
        ++errors;
      }
    }
  }
  EXPECT_GT(errors, 20);
}

TEST(Cell, AClockThatStandsIsAnError) {
  const Workload workload = adding({});
  CellPlan plan = cell_plan_of(workload);
  plan.clock = [] { return 42.0; };
  try {
    measure_cell(plan, kSilent);
    FAIL() << "no exception";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("clock-step"));
  }
}

/// Each reading is a moment after the one before, whatever else runs: a block that isn't lengthened lasts one moment.
Clock ticking() {
  constexpr double kMoment = 0x1p-17;  // exact in sums
  return [now = 0.0]() mutable { return now += kMoment; };
}

/// t(graph) / t(eager) of each round.
std::vector<double> ratios_of(const json& cell) {
  std::vector<double> ratios;
  for (const json& round : cell["processes"][0]["rounds"]) {
    ratios.push_back(round["seconds"]["graph"].get<double>() / round["seconds"]["eager"].get<double>());
  }
  return ratios;
}

TEST(Cell, InjectedTimeMakesTheOtherArmsSlower) {
  const Workload workload = adding({});
  const auto ratios = [&](const Injection& injection) {
    CellPlan plan = cell_plan_of(workload);
    plan.clock = ticking();
    plan.settings.injection = injection;
    return ratios_of(measure_cell(plan, kSilent));
  };
  EXPECT_THAT(ratios({}), AllOf(::testing::Not(IsEmpty()), Each(DoubleEq(1))));
  EXPECT_THAT(ratios({.time = 2}), Each(DoubleEq(3)));
  EXPECT_THAT(ratios({.time = 2, .arms = {"eager"}}), Each(DoubleEq(1.0 / 3)));
}

TEST(Cell, ProgressNamesCheckAndRounds) {
  const Workload workload = adding({});
  CellPlan plan{.workload = &workload,
                .arms = {&all_arms()[0]},
                .settings = {.process_seed = 1, .layout_seed = 9, .rounds = 2, .block_seconds = 0.0005},
                .full_check = true};
  std::vector<std::string> said;
  measure_cell(plan, [&](const std::string& what) { said.push_back(what); });
  EXPECT_THAT(said, ::testing::ElementsAre("check 0/3", "warm-up", "round 1/2", "round 2/2", "memory and counters"));
}

}  // namespace
}  // namespace diptych::workloads
