// The parent of the measuring processes, against workers made of shell: what they say is gathered, how they end is
// told.

#include "workloads/harness/runner.h"

#include <chrono>
#include <filesystem>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/core/temporary_folder.h"

namespace diptych::workloads {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kDone = "echo '{\"event\":\"done\"}'\n";
constexpr const char* kCell =
    "echo '{\"event\":\"cell\",\"workload\":\"micro/fusion\",\"cell\":{\"validity\":{\"agree\":true},"
    "\"processes\":[{\"seed\":1}]}}'\n";

/// `script` sees the worker's options as its arguments.
RunResult run_script(const std::string& script, std::uint64_t seed = 1, const RunHooks& hooks = {}) {
  RunPlan plan;
  plan.size = {"quick", 3, 6, 0.015};
  plan.workloads = {"micro/fusion"};
  plan.arms = {"eager", "graph"};
  plan.seed = seed;
  return run_processes(plan, {"/bin/sh", "-c", script, "worker"}, hooks);
}

/// What each process echoes with `{"event":"error",...}`.
std::vector<std::string> echoed(const std::string& expression, std::uint64_t seed = 1) {
  const std::string script =
      "echo \"{\\\"event\\\":\\\"error\\\",\\\"workload\\\":\\\"w\\\",\\\"message\\\":\\\"" + expression + "\\\"}\"\n";
  return run_script(script + kDone, seed).problems;
}

TEST(Runner, GathersTheCellsOfAllProcesses) {
  int told = 0;
  RunHooks hooks;
  hooks.cell_done = [&](const json& cells) {
    ++told;
    EXPECT_THAT(cells, SizeIs(1));
  };
  const RunResult result = run_script(std::string(kCell) + kDone, 1, hooks);
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_FALSE(result.interrupted);
  ASSERT_THAT(result.cells, SizeIs(1));
  EXPECT_EQ(result.cells[0]["workload"], "micro/fusion");
  EXPECT_EQ(result.cells[0]["suite"], "micro");
  EXPECT_THAT(result.cells[0]["processes"], SizeIs(3));
  EXPECT_EQ(told, 3);
}

TEST(Runner, OtherLinesAreIgnored) {
  const RunResult result =
      run_script("echo hello; echo '{'; echo '[1]'; printf '\\377\\n'\n" + std::string(kCell) + kDone);
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_THAT(result.cells, SizeIs(1));
}

TEST(Runner, AWorkloadThatThrowsIsReported) { EXPECT_THAT(echoed("it broke"), AllOf(SizeIs(3), Each("w: it broke"))); }

TEST(Runner, HowAProcessEndedIsReported) {
  EXPECT_THAT(run_script("kill -9 $$").problems,
              AllOf(SizeIs(3), Contains(AllOf(HasSubstr("process 2"), HasSubstr("ended by signal 9")))));
  EXPECT_THAT(run_script("exit 3").problems, Each(HasSubstr("ended with exit code 3")));
  EXPECT_THAT(run_script(kCell).problems, Each(HasSubstr("ended before it was done")));
  EXPECT_THAT(
      run_script("echo '{\"event\":\"progress\",\"workload\":\"micro/fusion\",\"what\":\"x\"}'; kill -11 $$").problems,
      Each(AllOf(HasSubstr("signal 11"), HasSubstr("in micro/fusion"))));
}

TEST(Runner, OneDeadProcessDoesntEndTheRun) {
  // The folder can be made once: by the first process.
  const TemporaryFolder folder("diptych-runner");
  const std::filesystem::path mark = folder.path() / "mark";
  const RunResult result =
      run_script("mkdir " + mark.string() + " 2>/dev/null && kill -9 $$\n" + std::string(kCell) + kDone);
  EXPECT_THAT(result.problems, ElementsAre(HasSubstr("process 1 was ended by signal 9")));
  ASSERT_THAT(result.cells, SizeIs(1));
  EXPECT_THAT(result.cells[0]["processes"], SizeIs(2));
}

TEST(Runner, ADisagreementInALaterProcessStays) {
  const std::string disagreeing =
      "echo '{\"event\":\"cell\",\"workload\":\"micro/fusion\",\"cell\":{\"validity\":{\"agree\":false,"
      "\"reason\":\"differ\"},\"processes\":[]}}'\n";
  const RunResult result =
      run_script("case \"$*\" in *first-call-check*) " + disagreeing + ";; *) " + kCell + ";; esac\n" + kDone);
  ASSERT_THAT(result.cells, SizeIs(1));
  EXPECT_EQ(result.cells[0]["validity"]["agree"], false);
  EXPECT_EQ(result.cells[0]["validity"]["reason"], "differ");
}

TEST(Runner, PassesThePlanOn) {
  const std::vector<std::string> options = echoed("$*");
  ASSERT_THAT(options, SizeIs(3));
  EXPECT_THAT(options,
              Each(AllOf(HasSubstr("--workloads micro/fusion"), HasSubstr("--arms eager,graph"), HasSubstr("--seed 1 "),
                         HasSubstr("--rounds 6"), HasSubstr("--block-seconds 0.015"))));
  EXPECT_THAT(options, Each(::testing::Not(HasSubstr("--first-call-check"))));    // no process gave a cell
  EXPECT_THAT(std::set<std::string>(options.begin(), options.end()), SizeIs(3));  // the process seeds differ
  EXPECT_EQ(options, echoed("$*"));
  EXPECT_NE(options, echoed("$*", 2));
}

TEST(Runner, PadsTheEnvironmentByTheSeed) {
  const std::vector<std::string> padding = echoed("${#DIPTYCH_PADDING}", 7);
  ASSERT_THAT(padding, SizeIs(3));
  EXPECT_GE(std::set<std::string>(padding.begin(), padding.end()).size(), 2U);
  EXPECT_EQ(padding, echoed("${#DIPTYCH_PADDING}", 7));
}

// Two programs that are compared should not share one accident of layout: their processes differ in it, and in no
// other number.
TEST(Runner, LayoutsComeFromTheSeedAndTheSide) {
  const auto layouts = [](std::uint64_t seed, int layout) {
    RunPlan plan;
    plan.size = {"quick", 20, 6, 0.015};
    plan.seed = seed;
    plan.layout = layout;
    return launches(plan);
  };
  const std::vector<Launch> base = layouts(7, 0);
  const std::vector<Launch> head = layouts(7, 1);
  const std::vector<Launch> other = layouts(8, 0);
  std::set<std::uint64_t> seeds;
  std::set<std::size_t> paddings;
  for (std::size_t i = 0; i < base.size(); ++i) {
    EXPECT_EQ(base[i].seed, head[i].seed);
    EXPECT_NE(base[i].seed, other[i].seed);
    for (const Launch* launch : {&base[i], &head[i], &other[i]}) {
      seeds.insert(launch->layout_seed);
      paddings.insert(launch->padding);
      EXPECT_LT(launch->padding, 4096U);
    }
  }
  EXPECT_THAT(seeds, SizeIs(60));
  EXPECT_GT(paddings.size(), 50U);
  EXPECT_EQ(echoed("$DIPTYCH_LAYOUT_SEED", 7), (std::vector<std::string>{fmt::format("w: {}", base[0].layout_seed),
                                                                         fmt::format("w: {}", base[1].layout_seed),
                                                                         fmt::format("w: {}", base[2].layout_seed)}));
}

/// A worker that measures what it is told to, with its process seed.
constexpr const char* kObedient = R"(
while [ $# -gt 0 ]; do case "$1" in
  --workloads) workloads="$workloads $2";; --process-seed) seed=$2;; --first-call-check) checked="$checked,$2";;
esac; shift; done
for w in $(echo "$workloads" | tr , ' '); do
  full=1; case ",$checked," in *",$w,"*) full=0;; esac
  echo "{\"event\":\"cell\",\"workload\":\"$w\",\"cell\":{\"validity\":{\"agree\":true,\"full\":$full},\"arms\":[],\"processes\":[{\"seed\":$seed,\"full\":$full}]}}"
done
echo '{"event":"done"}'
)";

RunPlan two_workloads() {
  RunPlan plan;
  plan.size = {"quick", 3, 6, 0.015};
  plan.workloads = {"micro/dispatch", "micro/fusion"};
  plan.arms = {"eager", "graph"};
  return plan;
}

RunResult continued(const RunPlan& plan, json cells, const std::string& script = kObedient) {
  return run_processes(plan, {"/bin/sh", "-c", script, "worker"}, {}, std::move(cells));
}

TEST(Runner, OnlyTheFirstProcessOfACellChecksItAll) {
  const RunResult result = continued(two_workloads(), json::array());
  for (const json& cell : result.cells) {
    ASSERT_THAT(cell["processes"], SizeIs(3));
    EXPECT_EQ(cell["processes"][0]["full"], 1);
    EXPECT_EQ(cell["processes"][1]["full"], 0);
    EXPECT_EQ(cell["processes"][2]["full"], 0);
  }
}

// Whatever is taken away, a continued run ends with what an uninterrupted one has.
TEST(Runner, MeasuresWhatIsMissingAlone) {
  const json whole = continued(two_workloads(), json::array()).cells;
  ASSERT_THAT(whole, SizeIs(2));
  for (int taken = 0; taken < 8; ++taken) {
    SCOPED_TRACE(taken);
    json rest = whole;
    if (taken == 7) {
      rest.erase(1);  // a workload that had no turn yet
    } else {
      for (int process = 2; process >= 0; --process) {
        if ((taken >> process & 1) != 0) {
          rest[0]["processes"].erase(static_cast<std::size_t>(process));
        }
      }
    }
    json result = continued(two_workloads(), rest).cells;
    ASSERT_THAT(result, SizeIs(2));
    for (std::size_t cell = 0; cell < 2; ++cell) {
      EXPECT_EQ(result[cell]["workload"], whole[cell]["workload"]);
      ASSERT_THAT(result[cell]["processes"], SizeIs(3));
      for (std::size_t process = 0; process < 3; ++process) {
        EXPECT_EQ(result[cell]["processes"][process]["seed"], whole[cell]["processes"][process]["seed"]);
      }
    }
  }
}

TEST(Runner, AWholeRunStartsNothing) {
  const json whole = continued(two_workloads(), json::array()).cells;
  const RunResult result = continued(two_workloads(), whole, "echo started >&2; exit 7");
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_EQ(result.cells, whole);
}

TEST(Runner, CellsThatDisagreeAreNotMeasuredAgain) {
  json cells = continued(two_workloads(), json::array()).cells;
  for (json& cell : cells) {
    cell["validity"]["agree"] = false;
    cell["processes"] = json::array();
  }
  EXPECT_EQ(continued(two_workloads(), cells, "exit 7").cells, cells);
}

TEST(Runner, WithoutTimeOneProcessIsEnough) {
  RunPlan plan;
  plan.size = {"quick", 3, 6, 0.015};
  plan.workloads = {"micro/fusion"};
  plan.arms = {"eager"};
  plan.metrics = {"exact"};
  const std::string script = "echo \"{\\\"event\\\":\\\"error\\\",\\\"message\\\":\\\"$*\\\"}\"\n";
  const RunResult result = run_processes(plan, {"/bin/sh", "-c", script + kDone, "worker"}, {});
  ASSERT_THAT(result.problems, SizeIs(1));
  EXPECT_THAT(result.problems[0], HasSubstr("--rounds 0"));
}

TEST(Runner, PassesPinsAndInjectionsOn) {
  RunPlan plan = two_workloads();
  plan.pinned = {1, 3};
  plan.injection = {0.05, 0.5, {"graph"}};
  const std::string script = "echo \"{\\\"event\\\":\\\"error\\\",\\\"message\\\":\\\"$*\\\"}\"\n";
  const RunResult result = run_processes(plan, {"/bin/sh", "-c", script + kDone, "worker"}, {});
  EXPECT_THAT(result.problems,
              Each(AllOf(HasSubstr("--pin 1,3"), HasSubstr("--inject-time 0.05"), HasSubstr("--inject-arm graph"))));
}

TEST(Runner, AMissingProgramIsAnError) {
  RunPlan plan;
  plan.size = {"quick", 1, 1, 0.01};
  plan.workloads = {"micro/fusion"};
  plan.arms = {"eager"};
  try {
    run_processes(plan, {"/no/such/program"}, {});
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("can't start a process"), HasSubstr("/no/such/program")));
  }
}

TEST(Runner, StopsAWorkerThatSaysNothing) {
  std::atomic<bool> stop = false;
  RunHooks hooks;
  hooks.stop = &stop;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    stop = true;
  });
  const auto start = std::chrono::steady_clock::now();
  const RunResult result = run_script(std::string(kCell) + "exec sleep 30", 1, hooks);
  later.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_TRUE(result.interrupted);
  EXPECT_THAT(result.cells, SizeIs(1));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // no child is left
}

// Its output is closed, itself goes on: waiting for it must not make the parent deaf to Ctrl-C.
TEST(Runner, StopsAWorkerThatClosedItsOutput) {
  std::atomic<bool> stop = false;
  RunHooks hooks;
  hooks.stop = &stop;
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    stop = true;
  });
  const auto start = std::chrono::steady_clock::now();
  const RunResult result = run_script("exec sleep 8 >&-", 1, hooks);
  later.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_TRUE(result.interrupted);
}

}  // namespace
}  // namespace diptych::workloads
