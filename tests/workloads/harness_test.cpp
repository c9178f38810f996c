// The parts of the harness by themselves: clocks that step, CPUs, the load of others, plans, counted instructions.

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sched.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/core/temporary_folder.h"
#include "tests/support/speed_bound.h"
#include "workloads/arms/arm.h"
#include "workloads/harness/cell/load.h"
#include "workloads/harness/instructions.h"
#include "workloads/harness/pinning.h"
#include "workloads/harness/plan.h"
#include "workloads/processes/timing.h"

namespace diptych::workloads {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

template <typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Gives these readings, one after the other.
Clock readings(std::vector<double> values) {
  return [values = std::move(values), next = std::size_t{0}]() mutable { return values.at(next++); };
}

class Folder {
 public:
  fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories((path() / name).parent_path());
    std::ofstream(path() / name) << text;
    return path() / name;
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_{"diptych-harness"};
};

TEST(Timing, SpansThatCantBeAreErrors) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double now : {5.0, 4.9, -1e9, nan, infinity, -infinity}) {
    EXPECT_THAT(error_of([&] { elapsed_since(readings({now}), 5.0); }), HasSubstr("clock-step")) << now;
  }
  EXPECT_DOUBLE_EQ(elapsed_since(readings({5.5}), 5.0), 0.5);
}

TEST(Timing, BlocksThatTheClockJumpsInAreErrors) {
  const auto time = [](std::vector<double> values) {
    return time_calls(
        readings(std::move(values)), 3, [](std::int64_t) {}, [] {});
  };
  EXPECT_DOUBLE_EQ(time({1.0, 1.25}), 0.25);
  EXPECT_THAT(error_of([&] { time({1.0, 0.5}); }), HasSubstr("clock-step"));
  EXPECT_THAT(error_of([&] { time({1.0, 1.0}); }), HasSubstr("clock-step"));
}

TEST(Timing, CallsAreCountedAndFinished) {
  std::vector<std::int64_t> calls;
  bool finished = false;
  time_calls(
      readings({0, 1}), 3,
      [&](std::int64_t i) {
        EXPECT_FALSE(finished);
        calls.push_back(i);
      },
      [&] { finished = true; });
  EXPECT_THAT(calls, ElementsAre(0, 1, 2));
  EXPECT_TRUE(finished);
}

// A block of 2 s with a stretch of a half: spins until 3 s have passed.
TEST(Timing, StretchedBlocksAreLongerByTheFraction) {
  EXPECT_DOUBLE_EQ(time_calls(
                       readings({10, 12, 12.4, 12.9, 13.0}), 1, [](std::int64_t) {}, [] {}, 0.5),
                   3.0);
}

// The promise of docs/harness.md: under 0.1 % of a block. Calls of 1 us, shorter than those of every workload, in the
// shortest blocks that there are.
TEST(TimingFigures, TheHarnessTakesUnderAThousandthOfABlock) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
  GTEST_SKIP() << "the promise is about release builds";
#endif
  constexpr double kBlock = 0.015;
  const auto calls = static_cast<std::int64_t>(kBlock / 1e-6);
  diptych::testing::expect_bounds([&] { return std::vector<double>{harness_seconds(steady_seconds, calls)}; },
                                  {{.what = "the harness's part of a block",
                                    .limit = 0.001 * kBlock,
                                    .figure = [](auto seconds) { return seconds[0]; },
                                    .unit = "us",
                                    .scale = 1e6}});
}

TEST(Pinning, ListsOfCpus) {
  const std::vector<int> allowed = {0, 2, 3, 5};
  EXPECT_THAT(cpus_to_pin("2", allowed), ElementsAre(2));
  EXPECT_THAT(cpus_to_pin("2-3,0", allowed), ElementsAre(0, 2, 3));
  EXPECT_THAT(cpus_to_pin("3,3", allowed), ElementsAre(3));
  EXPECT_THAT(cpus_to_pin("auto", allowed), ElementsAre(5));
}

TEST(Pinning, WhatIsNotAllowedIsRefusedWithWhatIs) {
  const std::vector<int> allowed = {0, 2};
  for (const char* wanted : {"1", "0-2", "", ",", "0,", "a", "0-", "0--2", "-1", "0x", " 0", "99999999999999", "2-0"}) {
    EXPECT_THAT(error_of([&] { cpus_to_pin(wanted, allowed); }), AllOf(HasSubstr("--pin"), HasSubstr("allowed: 0,2")))
        << wanted;
  }
}

TEST(Pinning, BindsTheProcess) {
  const std::vector<int> before = allowed_cpus();
  ASSERT_FALSE(before.empty());
  pin_this_process(std::vector<int>{before.back()});
  EXPECT_THAT(allowed_cpus(), ElementsAre(before.back()));
  EXPECT_EQ(sched_getcpu(), before.back());
  pin_this_process(before);
  EXPECT_EQ(allowed_cpus(), before);
  EXPECT_NE(error_of([] { pin_this_process(std::vector<int>{}); }), "");
}

std::string proc_stat(int user, int idle) {
  return "cpu  " + std::to_string(user) + " 10 20 " + std::to_string(idle) +
         " 40 5 5 900 0 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 5\n";
}

// In 2 s: 300 more ticks of user time on the machine, 1 s of them our own; ticks are 10 ms.
TEST(Load, IsWhatOthersTookOfTheCpus) {
  ASSERT_EQ(sysconf(_SC_CLK_TCK), 100);
  Folder root;
  root.write("proc/stat", proc_stat(1000, 5000));
  root.write("proc/loadavg", "0.50 1 1 1/100 5");
  double own = 7;
  const LoadWatch watch(profiler::SystemFiles(root.path()), readings({100, 102}), [&] { return own; });
  root.write("proc/stat", proc_stat(1300, 5100));
  root.write("proc/loadavg", "1.75 1 1 1/100 5");
  own = 8;
  EXPECT_EQ(watch.finish(), json({{"before", 0.5}, {"after", 1.75}, {"others_cpu", 1.0}, {"cpus", 2}}));
}

TEST(Load, IsNeverBelowNothing) {
  Folder root;
  root.write("proc/stat", proc_stat(1000, 5000));
  double own = 0;
  const LoadWatch watch(profiler::SystemFiles(root.path()), readings({0, 1}), [&] { return own; });
  own = 0.5;
  EXPECT_EQ(watch.finish()["others_cpu"], 0.0);
}

TEST(Load, WithoutProcIsNullWithAReason) {
  Folder root;
  const LoadWatch watch(profiler::SystemFiles(root.path()), readings({0, 1}), [] { return 0.0; });
  const json load = watch.finish();
  for (const char* field : {"before", "after", "others_cpu", "cpus"}) {
    EXPECT_TRUE(load[field].is_null()) << field;
  }
  EXPECT_THAT(load["reason"].get<std::string>(), AllOf(HasSubstr("/proc/stat"), HasSubstr("/proc/loadavg")));
  root.write("proc/stat", "cpu 1 2 x");
  EXPECT_TRUE(LoadWatch(profiler::SystemFiles(root.path()), readings({0, 1}), [] { return 0.0; })
                  .finish()["others_cpu"]
                  .is_null());
}

RunPlan sample_plan() {
  RunPlan plan;
  plan.size = {"gate", 12, 10, 0.02};
  plan.workloads = {"mlp/digits", "micro/fusion"};
  plan.arms = {"eager", "graph"};
  plan.default_arms = false;
  plan.seed = 17;
  plan.metrics = {"time", "instructions"};
  plan.pinned = {1, 3};
  plan.gemm = "openblas";
  plan.benchmark_options = {"--benchmark_filter=mlp"};
  plan.injection = {0.05, 0.01, {"graph"}};
  return plan;
}

/// As `diptych run` writes it.
json run_of(const RunPlan& plan) {
  return {
      {"size", {{"name", plan.size.name}, {"processes", plan.size.processes}, {"rounds", plan.size.rounds}}},
      {"seed", plan.seed},
      {"pinned", plan.pinned},
      {"injected",
       {{"time", plan.injection.time}, {"instructions", plan.injection.instructions}, {"arms", plan.injection.arms}}},
      {"plan", to_json(plan)}};
}

TEST(Plan, ComesBackFromTheRun) {
  const RunPlan plan = sample_plan();
  const RunPlan back = plan_of(run_of(plan));
  EXPECT_EQ(run_of(back), run_of(plan));
  EXPECT_EQ(back.size.block_seconds, 0.02);
  EXPECT_EQ(back.pinned, plan.pinned);
  EXPECT_EQ(back.gemm, "openblas");
  EXPECT_EQ(back.injection.arms, plan.injection.arms);
  EXPECT_THAT(error_of([] { plan_of({{"seed", 1}}); }), HasSubstr("measure it again"));
}

TEST(Plan, ItsCommandSaysAllThatIsNotTheDefault) {
  EXPECT_EQ(reproduce_command(sample_plan(), "mlp/digits"),
            "diptych run mlp/digits --gate --seed 17 --arms eager,graph --metric time,instructions --pin 1,3 "
            "--gemm openblas --inject-time 0.05 --inject-instructions 0.01 --inject-arm graph");
  RunPlan plan;
  plan.size = run_sizes()[0];
  plan.arms = {"eager", "replay", "graph"};
  EXPECT_EQ(reproduce_command(plan, "micro/fusion"), "diptych run micro/fusion --quick --seed 1");
  plan.verb = "ladder";
  plan.default_arms = false;
  plan.shuffle_order = true;
  EXPECT_EQ(reproduce_command(plan, "micro/fusion"), "diptych ladder micro/fusion --quick --seed 1 --shuffle-order");
  plan.arms.push_back(add_external_arm("test-peer", {"/bin/true"}).name);
  EXPECT_EQ(reproduce_command(plan, "micro/fusion"),
            "diptych ladder micro/fusion --quick --seed 1 --shuffle-order --against test-peer");
}

TEST(Plan, LaunchesComeFromTheSeedAlone) {
  RunPlan plan = sample_plan();
  const std::vector<Launch> first = launches(plan);
  ASSERT_THAT(first, SizeIs(12));
  std::set<std::uint64_t> seeds;
  for (const Launch& launch : first) {
    seeds.insert(launch.seed);
    EXPECT_LT(launch.seed, std::uint64_t{1} << 53U);
    EXPECT_LT(launch.padding, 4096U);
  }
  EXPECT_THAT(seeds, SizeIs(12));
  plan.arms = {"eager"};
  plan.workloads = {"micro/fusion"};
  EXPECT_EQ(launches(plan)[11].seed, first[11].seed);
  plan.seed = 18;
  EXPECT_NE(launches(plan)[0].seed, first[0].seed);
}

TEST(Injection, HitsAllButEagerOrThoseNamed) {
  EXPECT_FALSE(Injection{}.hits("eager"));
  EXPECT_TRUE(Injection{}.hits("graph"));
  const Injection named{0.1, 0, {"eager"}};
  EXPECT_TRUE(named.hits("eager"));
  EXPECT_FALSE(named.hits("graph"));
}

TEST(Instructions, TotalsOfCallgrindFiles) {
  EXPECT_EQ(callgrind_total("version: 1\nevents: Ir\nsummary: 30075\n\nfn=x\n"), 30075);
  EXPECT_EQ(callgrind_total("summary: 12 34\n"), 12);  // with cache simulation: Ir comes first
  for (const char* text : {"", "summary: 0\n", "summary: x\n", "totals: 5\n", "summary: -4\n", "summary: "}) {
    EXPECT_THAT(error_of([&] { callgrind_total(text); }), HasSubstr("counted nothing")) << text;
  }
}

/// Counts with a valgrind made of shell; its arguments are those of the real one.
std::map<std::string, json> count_with(const std::string& script, double timeout = 20, double inject = 0) {
  Folder folder;
  CountingPlan plan;
  plan.workload = "micro/fusion";
  plan.arms = {"eager", "graph"};
  plan.timeout = timeout;
  plan.injection.instructions = inject;
  plan.valgrind = folder.write("valgrind", "#!/bin/sh\n" + script);
  chmod(plan.valgrind.c_str(), 0755);
  return count_instructions(plan, {"diptych", "worker"});
}

/// Writes files as callgrind does: eager takes 3000 in all, graph 900 and what was asked for on top.
constexpr const char* kGoodValgrind = R"(
for argument; do case "$argument" in
  --callgrind-out-file=*) out=${argument#*=};;
  *'"extra_instructions":{"graph":'*) extra=${argument#*'"graph":'}; extra=$((3 * ${extra%%[!0-9]*}));;
esac; done
printf 'creator: callgrind-9\nsummary: 3000\n' > "$out.1"
printf 'creator: callgrind-9\nsummary: %d\n' $((900 + ${extra:-0})) > "$out.2"
echo '{"event":"counted","arm":"eager","isa":"avx2"}'
echo '{"event":"counted","arm":"graph","isa":"avx2"}'
echo '{"event":"done"}'
)";

TEST(Instructions, AreThoseOfOneCall) {
  const auto counts = count_with(kGoodValgrind);
  ASSERT_THAT(counts, SizeIs(2));
  EXPECT_EQ(counts.at("eager"), json({{"value", 1000.0}, {"isa", "avx2"}, {"calls", 3}, {"tool", "callgrind-9"}}));
  EXPECT_EQ(counts.at("graph")["value"], 300.0);
}

TEST(Instructions, InjectedOnesAreAFractionOfTheCall) {
  const auto counts = count_with(kGoodValgrind, 20, 0.1);
  EXPECT_EQ(counts.at("eager")["value"], 1000.0);
  EXPECT_EQ(counts.at("graph")["value"], 330.0);
}

TEST(Instructions, ThatCantBeCountedHaveAReason) {
  const auto expect_reason = [](const std::map<std::string, json>& counts, const std::string& reason) {
    ASSERT_THAT(counts, SizeIs(2));
    for (const auto& [arm, count] : counts) {
      EXPECT_TRUE(count["value"].is_null()) << arm;
      EXPECT_THAT(count["reason"].get<std::string>(), HasSubstr(reason));
    }
  };
  expect_reason(count_with("exit 3"), "exit code 3");
  expect_reason(count_with("kill -9 $$"), "signal 9");
  expect_reason(count_with("exit 0"), "ended before it was done");
  expect_reason(count_with("echo '{\"event\":\"done\"}'"), "counted 0 of 2 arms");
  expect_reason(count_with("echo '{\"event\":\"error\",\"message\":\"it broke\"}'; exit 1"), "it broke");
  expect_reason(count_with("for a; do case $a in --log-file=*) echo unknown option > ${a#*=};; esac; done; exit 1"),
                "unknown option");
  expect_reason(count_with("exec sleep 30", 0.2), "longer than 0.2 s");
  std::string without_files = kGoodValgrind;
  without_files.replace(without_files.find("summary: 3000"), 13, "summary: 0");
  expect_reason(count_with(without_files), "counted nothing");
}

TEST(Instructions, StopMeansNoCounts) {
  Folder folder;
  const std::atomic<bool> stop = true;
  CountingPlan plan;
  plan.workload = "micro/fusion";
  plan.arms = {"eager"};
  plan.valgrind = folder.write("valgrind", "#!/bin/sh\nexec sleep 30\n");
  chmod(plan.valgrind.c_str(), 0755);
  plan.stop = &stop;
  EXPECT_THAT(count_instructions(plan, {"diptych"}), IsEmpty());
}

}  // namespace
}  // namespace diptych::workloads
