// When others took too much of a cell for its times to be believed.

#include <cmath>
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/analyse.h"
#include "reports/analysis/cell_state.h"
#include "reports/run/schema.h"
#include "tests/reports/sample_run.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

constexpr double kTick = 0.01;

Json blocks_of(double seconds, double stolen, double waited = 0.001, double others = 0.02) {
  return {{"seconds", seconds},
          {"steal_seconds", stolen},
          {"waited_share", waited},
          {"others_cpu", others},
          {"tick_seconds", kTick}};
}

/// Eight processes, as `change` leaves them, on two CPUs.
Json judged(const std::function<void(std::size_t, Json&)>& change) {
  Json run = testing::sample_run({testing::SampleCell{"micro/pair", {"eager", "graph"}, {1e-3, 5e-4}, {0, 1e-2}}}, {});
  Json& processes = run["cells"][0]["processes"];
  for (std::size_t p = 0; p < processes.size(); ++p) {
    processes[p]["load"] = {{"before", 1.0}, {"after", 1.0}, {"cpus", 2}, {"others_cpu", 0.0}};
    processes[p]["blocks"] = blocks_of(2.4, 0);
    change(p, processes[p]);
  }
  analyse(run);
  EXPECT_THAT(validate(run), IsEmpty());
  return run["cells"][0]["comparisons"][0]["verdict"];
}

std::string reason_of(const std::function<void(std::size_t, Json&)>& change) { return judged(change)["reason"]; }

// As in a run beside other frameworks, whose start takes seconds on every CPU, between blocks of some milliseconds.
TEST(CellStateOf, ATroubledStartIsNoContamination) {
  EXPECT_EQ(reason_of([](std::size_t, Json& process) {
              process["steal_seconds"] = 4.4;
              process["load"]["others_cpu"] = 1.8;
            }),
            "interval-excludes-1");
}

TEST(CellStateOf, BlocksThatWereStolenAreContaminated) {
  const Json all = judged([](std::size_t, Json& process) { process["blocks"]["steal_seconds"] = 0.2; });
  EXPECT_EQ(all["reason"], "steal-time");
  EXPECT_THAT(all["detail"].get<std::string>(), HasSubstr("at least 8.2 % of the measured time"));
  EXPECT_EQ(reason_of([](std::size_t p, Json& process) { process["blocks"]["steal_seconds"] = p == 3 ? 0.2 : 0; }),
            "steal-time")
      << "one process";
  EXPECT_EQ(reason_of([](std::size_t, Json& process) { process["blocks"]["steal_seconds"] = 0.05; }),
            "interval-excludes-1");
  EXPECT_EQ(reason_of([](std::size_t, Json& process) { process["blocks"]["steal_seconds"] = nullptr; }),
            "interval-excludes-1");
}

TEST(CellStateOf, BlocksThatWaitedForOthersAreContaminated) {
  const Json all = judged([](std::size_t, Json& process) { process["blocks"]["waited_share"] = 0.3; });
  EXPECT_EQ(all["reason"], "load");
  EXPECT_THAT(all["detail"].get<std::string>(), HasSubstr("had the measuring CPU for 30 %"));
  const auto in_some = [](std::size_t some) {
    return reason_of([some](std::size_t p, Json& process) { process["blocks"]["waited_share"] = p < some ? 0.3 : 0; });
  };
  EXPECT_EQ(in_some(5), "load");
  EXPECT_EQ(in_some(3), "interval-excludes-1") << "the median process was alone";
  EXPECT_EQ(reason_of([](std::size_t, Json& process) { process["blocks"]["waited_share"] = 0.04; }),
            "interval-excludes-1");
}

TEST(CellStateOf, OthersOnTheOtherCpusCountWhileBlocksRun) {
  EXPECT_EQ(reason_of([](std::size_t, Json& process) { process["blocks"]["others_cpu"] = 0.9; }), "load");
  EXPECT_EQ(reason_of([](std::size_t, Json& process) { process["blocks"]["others_cpu"] = 0.4; }),
            "interval-excludes-1");
}

TEST(CellStateOf, OlderFilesSayNoShareOfWhatWasMeasured) {
  const Json verdict = judged([](std::size_t, Json& process) {
    process.erase("blocks");
    process["steal_seconds"] = 4.4;
  });
  EXPECT_EQ(verdict["reason"], "steal-time");
  EXPECT_THAT(verdict["detail"].get<std::string>(), AllOf(HasSubstr("older file"), Not(HasSubstr("%"))));
}

/// A run on a machine whose host takes these shares of a CPU's time, in slices far below a tick, within blocks and
/// between them. /proc shows whole ticks.
struct Size {
  const char* name;
  int processes, blocks;
  double block_seconds;
};

bool is_called_stolen(const Size& size, double within, double between, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform;
  Json cell = {{"processes", Json::array()}};
  for (int p = 0; p < size.processes; ++p) {
    double stolen = kTick * uniform(random);
    double shown = 0;
    for (int block = 0; block < size.blocks; ++block) {
      const double before = std::floor(stolen / kTick);
      stolen += within * size.block_seconds;
      shown += (std::floor(stolen / kTick) - before) * kTick;
      stolen += between * (0.002 + 0.02 * uniform(random));
    }
    cell["processes"].push_back({{"blocks", blocks_of(size.blocks * size.block_seconds, shown)}});
  }
  CellState state = read_state(cell, Json::object());
  state.agree = true;
  return is_contaminated(state);
}

// The threshold is 5 %. Runs of two arms of every size: of those that lose 1 %, at most 1 in 100 is called stolen,
// however much is taken between the blocks; of those that lose 20 %, at least 95 in 100 (for the two sizes that give
// verdicts 10 % suffices).
TEST(CellStateOf, IsRightAboutStolenRunsOfEverySize) {
  constexpr int kRuns = 1000;
  std::mt19937_64 random(7);
  for (const Size& size : {Size{"quick", 3, 12, 0.015}, Size{"gate", 12, 20, 0.0095}, Size{"standard", 8, 24, 0.1}}) {
    const auto called = [&](double within, double between) {
      int count = 0;
      for (int run = 0; run < kRuns; ++run) {
        count += is_called_stolen(size, within, between, random) ? 1 : 0;
      }
      return count;
    };
    EXPECT_EQ(called(0, 0.9), 0) << size.name;
    EXPECT_LE(called(0.01, 0.01), kRuns / 100) << size.name;
    EXPECT_LE(called(0.01, 0.9), kRuns / 100) << size.name;
    EXPECT_GE(called(0.2, 0.01), kRuns * 95 / 100) << size.name;
    if (size.name != std::string("quick")) {
      EXPECT_GE(called(0.1, 0.01), kRuns * 95 / 100) << size.name;
    }
  }
}

}  // namespace
}  // namespace diptych::reports
