// The parent of the measuring processes, against workers that are shell scripts: what they say is gathered, how they
// end is reported.

#include "workloads/harness/runner.h"

#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/core/temporary_folder.h"
#include "workloads/harness/time_left.h"

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

/// `script` sees the worker's arguments: its plan is $2.
RunResult run_script(const std::string& script, std::uint64_t seed = 1, const RunHooks& hooks = {}) {
  RunPlan plan;
  plan.size = {"quick", 3, 6, 0.015};
  plan.workloads = {"micro/fusion"};
  plan.arms = {"eager", "graph"};
  plan.seed = seed;
  return run_processes(plan, {"/bin/sh", "-c", script, "worker"}, hooks);
}

/// The document of the worker's plan, for echoing(): without its quotes.
constexpr const char* kPlan = "$(echo \"$2\" | tr -d '\"')";

/// A line that reports the expression in `{"event":"error",...}`.
std::string echoing(const std::string& expression) {
  return "echo \"{\\\"event\\\":\\\"error\\\",\\\"workload\\\":\\\"w\\\",\\\"message\\\":\\\"" + expression +
         "\\\"}\"\n";
}

/// What each process reports that way.
std::vector<std::string> echoed(const std::string& expression, std::uint64_t seed = 1) {
  return run_script(echoing(expression) + kDone, seed).problems;
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

TEST(Runner, SaysHowLongItStillTakesAfterTheFirstProcess) {
  constexpr const char* kSlowCell =
      "echo '{\"event\":\"progress\",\"workload\":\"micro/fusion\",\"what\":\"round 1/6\"}'; sleep 0.3\n";
  std::vector<std::optional<double>> left;
  RunHooks hooks;
  hooks.progress = [&](const RunProgress& progress) {
    EXPECT_EQ(progress.what, "round 1/6");
    left.push_back(progress.seconds_left);
  };
  run_script(std::string(kSlowCell) + kCell + kDone, 1, hooks);
  ASSERT_THAT(left, SizeIs(3));
  EXPECT_FALSE(left[0]);  // nothing is known yet
  ASSERT_TRUE(left[1] && left[2]);
  EXPECT_GT(*left[1], 0.3);  // two processes of at least 0.3 s, of which the second has just begun
  EXPECT_GT(*left[2], 0.1);
  EXPECT_LT(*left[2], *left[1]);
}

TEST(TimeLeftOfARun, FollowsWhatCellsTook) {
  TimeLeft left;
  left.add("a", 10);
  EXPECT_FALSE(left.seconds({"a", "b"}, 0));
  left.add("b", 20);
  EXPECT_DOUBLE_EQ(left.seconds({"b", "a", "b"}, 5).value(), 15 + 10 + 20);
  left.add("a", 5);  // without the full check, half: so will be b
  EXPECT_DOUBLE_EQ(left.seconds({"b", "a", "b"}, 4).value(), 6 + 5 + 10);
  EXPECT_DOUBLE_EQ(left.seconds({"b", "a"}, 100).value(), 5);  // longer than expected: it is nearly done
  left.add("b", 12);
  left.add("a", 7);
  EXPECT_DOUBLE_EQ(left.seconds({"a", "b"}, 0).value(), 6 + 12);
  EXPECT_DOUBLE_EQ(left.seconds({}, 3).value(), 0);
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
      run_script("case \"$*\" in *'first_call_check\":[\"'*) " + disagreeing + ";; *) " + kCell + ";; esac\n" + kDone);
  ASSERT_THAT(result.cells, SizeIs(1));
  EXPECT_EQ(result.cells[0]["validity"]["agree"], false);
  EXPECT_EQ(result.cells[0]["validity"]["reason"], "differ");
}

TEST(Runner, PassesThePlanOn) {
  const std::vector<std::string> plans = echoed(kPlan);
  ASSERT_THAT(plans, SizeIs(3));
  EXPECT_THAT(plans, Each(AllOf(HasSubstr("workloads:[micro/fusion]"), HasSubstr("arms:[eager,graph]"),
                                HasSubstr(",seed:1,"), HasSubstr("rounds:6"), HasSubstr("block_seconds:0.015"),
                                HasSubstr("first_call_check:[]"))));          // no process gave a cell
  EXPECT_THAT(std::set<std::string>(plans.begin(), plans.end()), SizeIs(3));  // the process seeds differ
  EXPECT_EQ(plans, echoed(kPlan));
  EXPECT_NE(plans, echoed(kPlan, 2));
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
  const std::vector<std::string> plans = echoed(kPlan, 7);
  ASSERT_THAT(plans, SizeIs(3));
  for (std::size_t i = 0; i < plans.size(); ++i) {
    EXPECT_THAT(plans[i], HasSubstr(fmt::format("layout_seed:{},", base[i].layout_seed)));
  }
}

/// A worker that measures what it is told to, with its process seed.
constexpr const char* kObedient = R"(
list_of() { echo "$2" | sed "s/.*\"$1\":\[\([^]]*\)\].*/\1/" | tr -d '"'; }
workloads=$(list_of workloads "$2")
checked=$(list_of first_call_check "$2")
seed=$(echo "$2" | sed 's/.*"process_seed":\([0-9]*\).*/\1/')
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
  const RunResult result = run_processes(plan, {"/bin/sh", "-c", echoing(kPlan) + kDone, "worker"}, {});
  ASSERT_THAT(result.problems, SizeIs(1));
  EXPECT_THAT(result.problems[0], HasSubstr("rounds:0"));
}

TEST(Runner, PassesPinsAndInjectionsOn) {
  RunPlan plan = two_workloads();
  plan.pinned = {1, 3};
  plan.gemm = "openblas";
  plan.injection = {0.05, 0.5, {"graph"}};
  const RunResult result = run_processes(plan, {"/bin/sh", "-c", echoing(kPlan) + kDone, "worker"}, {});
  EXPECT_THAT(result.problems, Each(AllOf(HasSubstr("pinned:[1,3]"), HasSubstr("gemm:openblas"), HasSubstr("time:0.05"),
                                          HasSubstr("arms:[graph]"))));
}

// A gate measures older programs too.
TEST(Runner, TellsProgramsOfBeforeTheDocumentByFlags) {
  RunPlan plan = two_workloads();
  plan.pinned = {1, 3};
  plan.injection = {0.05, 0.5, {"graph"}};
  RunHooks hooks;
  hooks.protocol = 4;
  const RunResult result =
      run_processes(plan, {"/bin/sh", "-c", echoing("$DIPTYCH_LAYOUT_SEED $*") + kDone, "worker"}, hooks);
  ASSERT_THAT(result.problems, SizeIs(3));
  for (std::size_t i = 0; i < result.problems.size(); ++i) {
    const Launch launch = launches(plan)[i];
    EXPECT_THAT(
        result.problems[i],
        HasSubstr(fmt::format("{} --workloads micro/dispatch --workloads micro/fusion --arms eager,graph --seed 1 "
                              "--process-seed {} --rounds 6 --block-seconds 0.015 --pin 1,3 --inject-time 0.05 "
                              "--inject-arm graph",
                              launch.layout_seed, launch.seed)));
  }
}

TEST(WorkerPlan, IsTheSameOnceItHasTravelled) {
  const WorkerPlan plan{.workloads = {"a", "model.onnx:x=1,2"},
                        .arms = {"eager", "mine"},
                        .external_arms = {{"mine", "run 'it' \"now\" \xff"}},
                        .without = {"a=mine"},
                        .settings = {.seed = 0xFFFFFFFFFFFFFFFF,
                                     .process_seed = 2,
                                     .layout_seed = 3,
                                     .rounds = 0,
                                     .block_seconds = 0.1,
                                     .injection = {0.05, 0.5, {"graph"}}},
                        .first_call_check = {"a"},
                        .pinned = {0, 7},
                        .gemm = "openblas",
                        .takes_turns = true,
                        .is_first = true,
                        .benchmark_options = {"--benchmark_x"},
                        .counts_instructions = true,
                        .extra_instructions = {{"graph", 1200}}};
  const std::vector<std::string> arguments = worker_arguments(plan, kWorkerProtocol);
  ASSERT_THAT(arguments, SizeIs(2));
  const WorkerPlan read = worker_plan_of(arguments[1]);
  EXPECT_EQ(worker_arguments(read, kWorkerProtocol), arguments);
  EXPECT_EQ(read.settings.seed, plan.settings.seed);
  EXPECT_EQ(read.workloads, plan.workloads);
  EXPECT_EQ(read.settings.block_seconds, plan.settings.block_seconds);
  EXPECT_EQ(read.extra_instructions, plan.extra_instructions);
}

TEST(WorkerPlan, WhatItLacksHasItsDefault) {
  const WorkerPlan plan = worker_plan_of(R"({"workloads": ["a"], "of a later age": 3})");
  EXPECT_THAT(plan.workloads, ElementsAre("a"));
  EXPECT_EQ(plan.settings.rounds, 1);
}

TEST(WorkerPlan, WhatIsNoneIsAnError) {
  for (const char* document : {"", "{", "[]", "3", R"({"workloads": 3})", R"({"rounds": "many"})"}) {
    EXPECT_THROW(worker_plan_of(document), Error) << document;
  }
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

// Its output is closed, but it goes on: waiting for it must not make the parent deaf to Ctrl-C.
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
