// What others took of the timed blocks: where it hit and only then.

#include "workloads/harness/cell/block_watch.h"

#include <array>
#include <cmath>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/temporary_folder.h"
#include "framework/diptych.h"
#include "workloads/harness/cell/cell.h"

namespace diptych::workloads {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using profiler::ThreadTimes;

/// /proc of a machine with two CPUs, in whole ticks.
class FakeProc {
 public:
  FakeProc() { write(); }

  profiler::SystemFiles files() const { return profiler::SystemFiles(folder_.path()); }
  void steal(int cpu, std::int64_t ticks) {
    stolen_[static_cast<std::size_t>(cpu)] += ticks;
    write();
  }
  void work(int cpu, std::int64_t ticks) {
    busy_[static_cast<std::size_t>(cpu)] += ticks;
    write();
  }
  /// Of this process, on CPU 0.
  void put_thread() const { put("proc/self/task/7", 0); }
  void put(const std::string& thread, int cpu) const {
    fs::create_directories(folder_.path() / thread);
    std::ofstream(folder_.path() / thread / "stat")
        << "7 (a ) b) R 1 1 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 9 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 " << cpu << " 0";
    std::ofstream(folder_.path() / thread / "schedstat") << "2500000000 500000000 12\n";
  }

 private:
  void write() const {
    fs::create_directories(folder_.path() / "proc");
    std::string text = fmt::format("cpu  {} 0 0 500 0 0 0 {} 0 0\n", busy_[0] + busy_[1], stolen_[0] + stolen_[1]);
    for (std::size_t cpu = 0; cpu < 2; ++cpu) {
      text += fmt::format("cpu{} {} 0 0 250 0 0 0 {} 0 0\n", cpu, busy_[cpu], stolen_[cpu]);
    }
    std::ofstream(folder_.path() / "proc/stat") << text << "intr 1 2\n";
  }

  TemporaryFolder folder_{"diptych-blocks"};
  std::array<std::int64_t, 2> stolen_{1000, 2000};
  std::array<std::int64_t, 2> busy_{70, 80};
};

TEST(ThreadTimesOfProc, AreReadWhateverTheNameHolds) {
  const FakeProc proc;
  proc.put("proc/42/task/7", 3);
  const std::vector<ThreadTimes> threads = profiler::thread_times(proc.files(), "/proc/42");
  ASSERT_EQ(threads.size(), 1U);
  EXPECT_EQ(threads[0].id, 7);
  EXPECT_EQ(threads[0].cpu, 3);
  EXPECT_DOUBLE_EQ(threads[0].ran, 2.5);
  EXPECT_DOUBLE_EQ(threads[0].waited, 0.5);
  EXPECT_TRUE(profiler::thread_times(proc.files(), "/proc/43").empty());
  EXPECT_FALSE(profiler::thread_times(profiler::SystemFiles(), "/proc/self").empty());
}

// Two blocks of 1 s on CPU 0. Of each, 10 ticks are stolen there; what is taken from CPU 1, and before and between the
// blocks, is nobody's loss.
TEST(Blocks, LoseWhatIsStolenFromTheirCpuWhileTheyRun) {
  ASSERT_DOUBLE_EQ(profiler::tick_seconds(), 0.01);
  FakeProc proc;
  BlockWatch watch(proc.files());
  proc.steal(0, 5000);
  for (int block = 0; block < 2; ++block) {
    const double ran = block;
    watch.begin({{1, 0, ran, 0}});
    proc.steal(0, 10);
    proc.steal(1, 90);
    watch.end(BlockWatch::Side::engine, {{1, 0, ran + 0.9, 0}}, 1);
    proc.steal(0, 700);
  }
  EXPECT_NEAR(watch.summary()["steal_seconds"].get<double>(), 0.2, 1e-12);
  EXPECT_DOUBLE_EQ(watch.summary()["seconds"].get<double>(), 2);
}

// The thread that computed counts, not the one that waited for its answer; one that moved ran on two CPUs.
TEST(Blocks, RunWhereTheirBusiestThreadDid) {
  FakeProc proc;
  BlockWatch watch(proc.files());
  watch.begin({{1, 0, 5, 0}, {9, 1, 0, 0}});
  proc.steal(0, 40);
  proc.steal(1, 10);
  watch.end(BlockWatch::Side::external, {{1, 0, 5.001, 0}, {9, 1, 0.9, 0}}, 1);
  EXPECT_NEAR(watch.summary()["steal_seconds"].get<double>(), 0.1, 1e-12);
  watch.begin({{1, 0, 6, 0}});
  proc.steal(0, 40);
  proc.steal(1, 10);
  watch.end(BlockWatch::Side::engine, {{1, 1, 6.9, 0}}, 1);
  EXPECT_NEAR(watch.summary()["steal_seconds"].get<double>(), 0.1 + 0.25, 1e-12);
}

// In two blocks of 1 s: 150 ticks of work on the machine beside the 90 of our own, which waited a tenth of the
// engine's.
TEST(Blocks, ShareTheMachineWithThoseWhoRanMeanwhile) {
  FakeProc proc;
  BlockWatch watch(proc.files());
  proc.work(1, 3000);
  watch.begin({{1, 0, 10, 3}});
  proc.work(0, 90);
  proc.work(1, 100);
  watch.end(BlockWatch::Side::engine, {{1, 0, 10.9, 3.1}}, 1);
  proc.work(1, 3000);
  watch.begin({{1, 0, 11, 4}, {2, 0, 0, 0}});
  proc.work(0, 100);
  proc.work(1, 50);
  watch.end(BlockWatch::Side::external, {{1, 0, 11, 4}, {2, 0, 1, 0.7}}, 1);
  const json blocks = watch.summary();
  EXPECT_NEAR(blocks["others_cpu"].get<double>(), 1.5 / 2, 1e-12);
  EXPECT_NEAR(blocks["waited_share"].get<double>(), 0.1, 1e-12);
}

// Blocks as long as a tick, of which 3 % is stolen in slices that no tick can show: 4,000 of them show it within 10 %.
TEST(Blocks, AsShortAsATickAddUpWithoutBias) {
  FakeProc proc;
  BlockWatch watch(proc.files());
  double stolen = 0.004;
  std::int64_t shown = 0;
  const auto pass = [&](double seconds) {
    stolen += seconds;
    const auto ticks = static_cast<std::int64_t>(stolen / profiler::tick_seconds());
    if (ticks != shown) {
      proc.steal(0, ticks - shown);
      shown = ticks;
    }
  };
  for (int block = 0; block < 4000; ++block) {
    watch.begin({{1, 0, 0, 0}});
    pass(0.03 * 0.011);
    watch.end(BlockWatch::Side::engine, {{1, 0, 0.01, 0}}, 0.011);
    pass(0.5 * 0.0037);  // much more of the time between them
  }
  EXPECT_NEAR(watch.summary()["steal_seconds"].get<double>() / watch.summary()["seconds"].get<double>(), 0.03, 0.003);
}

TEST(Blocks, OfAMachineThatDoesntSayAreNullWithAReason) {
  const TemporaryFolder nothing("diptych-blocks");
  BlockWatch watch{profiler::SystemFiles(nothing.path())};
  watch.begin({});
  watch.end(BlockWatch::Side::engine, {}, 1);
  const json blocks = watch.summary();
  for (const char* field : {"steal_seconds", "waited_share", "others_cpu"}) {
    EXPECT_TRUE(blocks[field].is_null()) << field;
  }
  EXPECT_THAT(blocks["reason"].get<std::string>(), ::testing::HasSubstr("/proc/stat"));
}

/// Has a tick stolen from CPU 0 with each call, or a hundred when it is made.
class Robbed final : public Program {
 public:
  Robbed(FakeProc& proc, bool in_calls) : proc_(proc), in_calls_(in_calls), inputs_{full({1}, 1.0)} {
    if (!in_calls) {
      proc_.steal(0, 100);
    }
  }
  std::span<const Tensor> inputs(std::int64_t /*step*/) override {
    if (in_calls_) {
      proc_.steal(0, 1);
    }
    return inputs_;
  }
  std::vector<Tensor> body(std::span<const Tensor> inputs) override { return {inputs[0] + 1.0}; }

 private:
  FakeProc& proc_;
  bool in_calls_;
  std::array<Tensor, 1> inputs_;
};

json process_robbed(bool in_calls) {
  FakeProc proc;
  proc.put_thread();
  const Workload workload{.name = "test/robbed",
                          .suite = "test",
                          .title = "adds",
                          .unit = "call",
                          .check_steps = 2,
                          .make = [&](std::uint64_t) { return std::make_unique<Robbed>(proc, in_calls); }};
  CellPlan plan{.workload = &workload,
                .arms = {find_arm("eager"), find_arm("graph")},
                .settings = {.process_seed = 5, .layout_seed = 9, .rounds = 4, .block_seconds = 0.002},
                .full_check = true};
  plan.files = proc.files();
  return measure_cell(plan, [](const std::string&) {})["processes"][0];
}

TEST(BlocksOfACell, AreNotRobbedByWhatHappensAtTheStart) {
  const json process = process_robbed(false);
  EXPECT_GE(process["steal_seconds"].get<double>(), 1);
  EXPECT_EQ(process["blocks"]["steal_seconds"], 0.0);
  EXPECT_GT(process["blocks"]["seconds"], 0.0);
}

TEST(BlocksOfACell, AreRobbedByEachOfTheirCalls) {
  const json process = process_robbed(true);
  const double calls = 2 * process["rounds"].size() * process["iterations"].get<double>();
  EXPECT_NEAR(process["blocks"]["steal_seconds"].get<double>(), 0.01 * calls, 1e-9);
}

// On the machine as it is: both ends of a block that computes.
TEST(BlocksOfACell, AreReadFromThisMachine) {
  BlockWatch watch{profiler::SystemFiles()};
  watch.begin(profiler::thread_times(profiler::SystemFiles(), "/proc/self"));
  const double start = steady_seconds();
  while (steady_seconds() - start < 0.2) {
  }
  watch.end(BlockWatch::Side::engine, profiler::thread_times(profiler::SystemFiles(), "/proc/self"), 0.2);
  const json blocks = watch.summary();
  if (!fs::exists("/proc/self/schedstat")) {
    GTEST_SKIP() << "the kernel keeps no statistics of its scheduler";
  }
  EXPECT_TRUE(blocks["waited_share"].is_number()) << blocks;
  EXPECT_TRUE(blocks["others_cpu"].is_number()) << blocks;
}

}  // namespace
}  // namespace diptych::workloads
