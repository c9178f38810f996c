// What runs and gates say about time itself: alone on the machine.

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/run/json_access.h"
#include "reports/run/schema.h"
#include "tests/e2e/other_program.h"
#include "tests/e2e/program.h"
#include "tests/support/speed_bound.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Json = nlohmann::json;

TEST(Times, GateIsTwelveProcessesOfTenRounds) {
  TemporaryFolder folder;
  const Json run = run_json({"micro/dispatch", "--gate", "--arms", "eager,graph"}, folder.path());
  EXPECT_EQ(run["size"], Json({{"name", "gate"}, {"processes", 12}, {"rounds", 10}}));
  ASSERT_THAT(run["cells"][0]["processes"], SizeIs(12));
  for (const Json& process : run["cells"][0]["processes"]) {
    EXPECT_THAT(process["rounds"], SizeIs(10));
    EXPECT_LT(process["harness_overhead"], 0.001);
    EXPECT_GE(process["load"]["others_cpu"], 0);
    for (const Json& arm : process["arms"]) {
      EXPECT_FALSE(arm["warmup_seconds"].empty());
    }
  }
  EXPECT_EQ(run["cells"][0]["reproduce"], "diptych run micro/dispatch --gate --seed 1 --arms eager,graph");
}

/// t(arm) / t(base) of every round.
std::vector<double> ratios_of(const Json& run, const std::string& arm, const std::string& base) {
  std::vector<double> ratios;
  for (const Json& process : run["cells"][0]["processes"]) {
    for (const Json& round : process["rounds"]) {
      ratios.push_back(round["seconds"][arm].get<double>() / round["seconds"][base].get<double>());
    }
  }
  return ratios;
}

TEST(TimesFigures, HalfOfTheTimeIsSeen) {
  TemporaryFolder folder;
  Outcome outcome;
  const Json run = run_json({"micro/dispatch", "--arms", "eager,replay,replay+simplify", "--inject-time", "0.5",
                             "--inject-arm", "replay+simplify"},
                            folder.path(), &outcome);
  EXPECT_EQ(run["injected"], Json({{"time", 0.5}, {"instructions", 0.0}, {"arms", {"replay+simplify"}}}));
  EXPECT_THAT(outcome.output, HasSubstr("on purpose"));
  EXPECT_EQ(run["cells"][0]["reproduce"],
            "diptych run micro/dispatch --quick --seed 1 --arms eager,replay,replay+simplify --inject-time 0.5 "
            "--inject-arm replay+simplify");
  std::vector<double> ratios = ratios_of(run, "replay+simplify", "replay");
  const auto told = [&](Side side) { return judge(ratios, side == Side::at_least ? 1.3 : 1.7, side); };
  if (told(Side::at_least).answer == Answer::cannot_tell || told(Side::at_most).answer == Answer::cannot_tell) {
    TemporaryFolder longer;
    ratios = ratios_of(run_json({"micro/dispatch", "--gate", "--arms", "eager,replay,replay+simplify", "--inject-time",
                                 "0.5", "--inject-arm", "replay+simplify"},
                                longer.path(), &outcome),
                       "replay+simplify", "replay");
  }
  expect_told("the slowed arm's time by the other's, at least 1.3", told(Side::at_least), outcome.machine);
  expect_told("the slowed arm's time by the other's, at most 1.7", told(Side::at_most), outcome.machine);
}

class Turns : public WithOtherPrograms {};

TEST_F(Turns, ProcessesTakeTurnsWhereBothProgramsCan) {
  const std::vector<std::string> gate = {"--workloads", "micro/dispatch", "--arms", "graph", "--metrics", "time"};
  const auto gated = [&](const std::string& base) {
    std::vector<std::string> arguments = {"gate", "--base", base, "--out", base + "-out"};
    arguments.insert(arguments.end(), gate.begin(), gate.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, 3) << outcome.output << outcome.error;  // no calibration: times only inform
    const fs::path out = fs::directory_iterator(folder_.path() / (base + "-out"))->path();
    return std::tuple(read_json(out / "base.json"), read_json(out / "head.json"), outcome.machine);
  };
  const auto [base, head, machine] = gated(put_program("same", script("")));
  double least_load = 1e9;
  int made_anew = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    const Json& one = base["cells"][0]["processes"][i];
    const Json& other = head["cells"][0]["processes"][i];
    EXPECT_EQ(one["turns"], true);
    EXPECT_EQ(other["turns"], true);
    EXPECT_EQ(one["iterations"], other["iterations"]);
    EXPECT_EQ(one["seed"], other["seed"]);
    EXPECT_NE(one["layout_seed"], other["layout_seed"]);
    made_anew += one["layouts"] >= 2 ? 1 : 0;
    least_load =
        std::min(least_load, one["load"]["others_cpu"].get<double>() + other["load"]["others_cpu"].get<double>());
  }
  // A round of micro/dispatch takes 10 ms, making it anew 1 ms; beside others it may have waited for a CPU and take too
  // long.
  EXPECT_GE(made_anew, machine.is_quiet() ? 12 : 7) << machine.text();
  const auto [older, newer, later] = gated(put_program("older", script(kOfTheFirstProtocol)));
  EXPECT_FALSE(older["cells"][0]["processes"][0].contains("turns"));
  EXPECT_FALSE(newer["cells"][0]["processes"][0].contains("turns"));
  if (!machine.is_quiet()) {
    GTEST_SKIP() << "whether the other one counts as load can't be told: " << machine.text();
  }
  EXPECT_LT(least_load, 1.0) << "the other one is no load; " << machine.text();
}

}  // namespace
}  // namespace diptych::testing
