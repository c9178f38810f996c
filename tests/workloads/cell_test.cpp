// Validity before speed: arms that disagree, targets that are missed and programs that throw are never timed.

#include "workloads/harness/cell.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/diptych.h"
#include "reports/analyse.h"
#include "reports/ladder_table.h"
#include "reports/schema.h"
#include "reports/table.h"
#include "workloads/harness/ulp.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// x + 1 plus what the test asks for. `instance` counts the programs made: each arm's is another one.
class Adding final : public Program {
 public:
  struct Behaviour {
    std::function<double(int instance, std::int64_t step)> output = [](int, std::int64_t) { return 0.0; };
    std::function<double(int instance)> state = [](int) { return 0.0; };
    std::function<std::size_t(int instance)> outputs = [](int) { return std::size_t{1}; };
    std::vector<Metric> metrics;
    int throws_in_instance = -1;
  };
  Adding(Behaviour behaviour, int instance) : behaviour_(std::move(behaviour)), instance_(instance) {
    state_ = Variable(full({2}, behaviour_.state(instance_)), "counter");
  }
  std::span<const Tensor> inputs(std::int64_t step) override {
    inputs_ = {full({2}, 1 + behaviour_.output(instance_, step))};
    return inputs_;
  }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override {
    if (instance_ == behaviour_.throws_in_instance) {
      throw Error("the program broke");
    }
    return std::vector<Tensor>(behaviour_.outputs(instance_), inputs[0] + 1.0);
  }
  Variables state() const override { return {state_}; }
  std::vector<Metric> metrics() override { return behaviour_.metrics; }

 private:
  Behaviour behaviour_;
  int instance_;
  Variable state_;
  std::array<Tensor, 1> inputs_;
};

Workload adding(Adding::Behaviour behaviour, std::vector<Workload::Target> targets = {}) {
  auto instances = std::make_shared<int>(0);
  return {.name = "test/adding",
          .suite = "test",
          .title = "adds",
          .unit = "call",
          .check_steps = 3,
          .targets = std::move(targets),
          .make = [behaviour = std::move(behaviour), instances](std::uint64_t) {
            return std::make_unique<Adding>(behaviour, (*instances)++);
          }};
}

/// Under the arms that `run` takes.
json measure(const Workload& workload, bool full_check = true, std::uint64_t process_seed = 5) {
  CellPlan plan{&workload, {}, 1, process_seed, 9, 4, 0.0005, full_check};
  for (const char* arm : {"eager", "replay", "graph"}) {
    plan.arms.push_back(find_arm(arm));
  }
  return measure_cell(plan, [](const std::string&) {});
}

void expect_refused(const json& cell, const std::string& reason) {
  EXPECT_EQ(cell["validity"]["agree"], false);
  ASSERT_TRUE(cell["validity"]["reason"].is_string()) << cell;
  EXPECT_THAT(cell["validity"]["reason"].get<std::string>(), HasSubstr(reason));
  EXPECT_THAT(cell["processes"], IsEmpty());
}

/// The run that `diptych run` would make of the cell.
json run_of(json cell) {
  cell.update({{"workload", "test/adding"},
               {"suite", "test"},
               {"title", "adds"},
               {"unit", "call"},
               {"reproduce", "diptych run test/adding"},
               {"comparisons", json::array()},
               {"rungs", json::array()}});
  json run = {{"schema", reports::schema_id},
              {"name", "test"},
              {"created", "2026-01-01T00:00:00Z"},
              {"status", "complete"},
              {"command", {"diptych", "run"}},
              {"size", {{"name", "quick"}, {"processes", 1}, {"rounds", 4}}},
              {"seed", 1},
              {"threads", 1},
              {"numerics", "exact"},
              {"environment", json::object()},
              {"cells", {std::move(cell)}}};
  reports::analyse(run);
  return run;
}

/// A rung that need not keep every bit, for want of one in the ladder: its program's inputs differ.
json measure_inexact(const Workload& workload) {
  Arm fast = *find_arm("graph");
  fast.name = "+fast";
  fast.rung = "";
  fast.exact = false;
  const CellPlan plan{&workload, {find_arm("eager"), find_arm("graph"), &fast}, 1, 5, 9, 4, 0.0005, true};
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
  const json run = run_of(cell);
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
  EXPECT_THAT(reports::validate(run_of(cell)), IsEmpty());
}

// It stands between eager and replay in the list, but takes no part in what separates those two.
TEST(Cell, ArmBesideTheLadderIsMeasuredWithoutARung) {
  const Workload workload = adding({});
  CellPlan plan{&workload, {}, 1, 5, 9, 4, 0.0005, true};
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
  const json run = run_of(cell);
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

TEST(Cell, ThatDisagreesIsNotTimed) {
  Adding::Behaviour behaviour;
  behaviour.output = [](int instance, std::int64_t) { return instance == 1 ? 1e-6 : 0.0; };
  expect_refused(measure(adding(behaviour)), "output 0 of eager and replay differ in step 0");
}

TEST(Cell, ThatDisagreesLateOrInTheLastArmIsFound) {
  Adding::Behaviour behaviour;
  behaviour.output = [](int instance, std::int64_t step) { return instance == 2 && step == 2 ? 1.0 : 0.0; };
  expect_refused(measure(adding(behaviour)), "output 0 of eager and graph differ in step 2");
  // Later processes look at the first step alone.
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
  const json run = run_of(measure(adding(behaviour)));
  EXPECT_THAT(reports::validate(run), IsEmpty());
  ASSERT_FALSE(run["cells"][0]["comparisons"].empty());
  for (const json& comparison : run["cells"][0]["comparisons"]) {
    EXPECT_EQ(comparison["verdict"]["verdict"], "INVALID");
  }
}

TEST(Cell, ThatDisagreesIsShownAsInvalid) {
  Adding::Behaviour behaviour;
  behaviour.output = [](int instance, std::int64_t) { return instance; };
  const json run = run_of(measure(adding(behaviour)));
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

// A target whose metric is misspelt, or not given, holds by silence.
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

CellPlan plan_of(const Workload& workload) {
  return {&workload, {find_arm("eager"), find_arm("graph")}, 1, 5, 9, 4, 0.0005, true};
}

const auto kSilent = [](const std::string&) {};

TEST(Cell, WarmupSeriesAreThoseOfTheCallsAfterTheFirst) {
  const Workload workload = adding({});
  const json cell = measure_cell(plan_of(workload), kSilent);
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
    CellPlan plan = plan_of(workload);
    plan.block_seconds = 0.02;
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

// Blocks of 0.5 ms. Calls of 2 ms: four times as long as planned. Of 7 ms: 14 times, so 8 x 10 / 14 rounds. Of 40 ms:
// the least. A slow machine makes them fewer.
TEST(Cell, LongCallsGetFewerRounds) {
  for (const auto& [call_seconds, least, most] : {std::tuple{0.002, 5, 8}, {0.007, 5, 6}, {0.04, 5, 5}}) {
    Workload workload = adding({});
    workload.check_steps = 1;
    workload.make = [call_seconds = call_seconds](std::uint64_t) { return std::make_unique<Slow>(call_seconds); };
    CellPlan plan = plan_of(workload);
    plan.rounds = 8;
    const std::size_t rounds = measure_cell(plan, kSilent)["processes"][0]["rounds"].size();
    EXPECT_GE(rounds, static_cast<std::size_t>(least)) << call_seconds;
    EXPECT_LE(rounds, static_cast<std::size_t>(most)) << call_seconds;
  }
}

TEST(Cell, ProcessesSayWhatElseRanAndWhatTheHarnessCosts) {
  const Workload workload = adding({});
  const json cell = measure_cell(plan_of(workload), kSilent);
  const json& process = cell["processes"][0];
  EXPECT_TRUE(process["load"]["before"].is_number()) << process["load"];
  EXPECT_TRUE(process["load"]["others_cpu"].is_number());
  EXPECT_GT(process["harness_overhead"], 0);
  EXPECT_LT(process["harness_overhead"], 0.5);  // of half a millisecond of very short calls, sanitizers too
}

TEST(Cell, WithoutRoundsCountsAndTimesNothing) {
  const Workload workload = adding({});
  CellPlan plan = plan_of(workload);
  plan.rounds = 0;
  json cell = measure_cell(plan, kSilent);
  EXPECT_THAT(cell["processes"], IsEmpty());
  EXPECT_EQ(cell["validity"]["agree"], true);
  EXPECT_TRUE(cell["arms"][0]["exact"]["dispatches"].is_number());
  json run = run_of(cell);
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
      CellPlan plan = plan_of(workload);
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
  CellPlan plan = plan_of(workload);
  plan.clock = [] { return 42.0; };
  try {
    measure_cell(plan, kSilent);
    FAIL() << "no exception";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("clock-step"));
  }
}

/// t(graph) / t(eager), each in its fastest round: a longer block is interrupted more often, so that under load a
/// median would grow by more than the injection.
double ratio_of(const json& cell) {
  const auto fastest = [&](const char* arm) {
    double best = std::numeric_limits<double>::infinity();
    for (const json& round : cell["processes"][0]["rounds"]) {
      best = std::min(best, round["seconds"][arm].get<double>());
    }
    return best;
  };
  return fastest("graph") / fastest("eager");
}

// Three times longer is far outside of what a busy machine does to the fastest of 15 rounds.
TEST(Cell, InjectedTimeMakesTheOtherArmsSlower) {
  const Workload workload = adding({});
  CellPlan plan = plan_of(workload);
  plan.rounds = 15;
  const double plain = ratio_of(measure_cell(plan, kSilent));
  plan.injection.time = 2;
  EXPECT_NEAR(std::log(ratio_of(measure_cell(plan, kSilent)) / plain), std::log(3.0), 0.4);
  plan.injection.arms = {"eager"};
  EXPECT_NEAR(std::log(ratio_of(measure_cell(plan, kSilent)) / plain), -std::log(3.0), 0.4);
}

TEST(Cell, ProgressNamesCheckAndRounds) {
  const Workload workload = adding({});
  CellPlan plan{&workload, {&all_arms()[0]}, 1, 1, 9, 2, 0.0005, true};
  std::vector<std::string> said;
  measure_cell(plan, [&](const std::string& what) { said.push_back(what); });
  EXPECT_THAT(said, ::testing::ElementsAre("check 0/3", "warm-up", "round 1/2", "round 2/2", "memory and counters"));
}

}  // namespace
}  // namespace diptych::workloads
