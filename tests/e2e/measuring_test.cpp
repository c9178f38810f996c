// What a run can be told about measuring: sizes, CPUs, metrics, slowdowns on purpose.

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/run/json_access.h"
#include "reports/run/schema.h"
#include "tests/e2e/program.h"
#include "tests/support/on_one_cpu.h"
#include "tests/support/speed_bound.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

TEST(Flags, ThreadsAndPins) {
  TemporaryFolder folder;
  EXPECT_THAT(refused({"run", "micro/dispatch", "--threads", "10000"}, folder.path()).error,
              HasSubstr("say a number from 1 to"));
  EXPECT_THAT(refused({"run", "micro/dispatch", "--threads", "0"}, folder.path()).error,
              HasSubstr("say a number from 1 to"));
  EXPECT_THAT(diptych({"run", "--help"}, folder.path()).output, HasSubstr("results don't depend on it"));
  EXPECT_THAT(refused({"run", "micro/dispatch", "--pin", "999"}, folder.path()).error, HasSubstr("allowed: "));
  EXPECT_THAT(refused({"run", "micro/dispatch", "--pin", "0-"}, folder.path()).error, HasSubstr("allowed: "));
  EXPECT_THAT(refused({"run", "micro/dispatch", "--metric", "tiem"}, folder.path()).error, HasSubstr("time"));
  EXPECT_THAT(run_folders(folder.path()), IsEmpty());
  const Json run = run_json({"--pin", "micro/dispatch", "--threads", "1"}, folder.path());
  EXPECT_EQ(run["threads"], 1);
  ASSERT_THAT(run["pinned"], SizeIs(1));
  EXPECT_EQ(run["cells"][0]["reproduce"],
            "diptych run micro/dispatch --quick --seed 1 --pin " + run["pinned"][0].dump());
}

TEST(Flags, ThreadsAreThoseThatTheProcessMayUse) {
  TemporaryFolder folder;
  const OnOneCpu one;
  const Outcome outcome = diptych({"run", "micro/dispatch", "--threads", "2"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, HasSubstr("--threads 2: this process may use 1 CPU (" + std::to_string(one.cpu()) +
                                       "); say a number from 1 to 1"));
  EXPECT_THAT(run_folders(folder.path()), IsEmpty());
}

TEST(Flags, MemoryThatIsRefusedToAProcessOfThreads) {
  if (usable_cpus() < 2) {
    GTEST_SKIP() << "several threads are measured on as many CPUs; this process may use one";
  }
  TemporaryFolder folder;
  Command command = diptych_command({"run", "vit/b16", "--threads", "2", "--arms", "eager,graph"}, folder.path());
  command.memory_limit = std::size_t{400} << 20U;  // its parameters alone are 346 MB
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_THAT(outcome.error, HasSubstr("out of memory: the system refused"));
  for (const fs::path& run : run_folders(folder.path())) {
    EXPECT_FALSE(has_run_json(run)) << "nothing was measured";
  }
}

TEST(Flags, AllArmsComputeOnTheThreads) {
  if (usable_cpus() < 2) {
    GTEST_SKIP() << "several threads are measured on as many CPUs; this process may use one";
  }
  TemporaryFolder folder;
  const std::string first = std::to_string(OnOneCpu().cpu());
  EXPECT_THAT(refused({"run", "mlp/simplenet", "--threads", "2", "--pin", first}, folder.path()).error,
              HasSubstr("2 threads need as many CPUs"));
  EXPECT_THAT(refused({"run", "mlp/simplenet", "--arms", "graph,+threads"}, folder.path()).error,
              HasSubstr("--threads 2"));
  EXPECT_THAT(run_folders(folder.path()), IsEmpty());
  const Json run = run_json({"mlp/simplenet", "--threads", "2"}, folder.path());
  const Json& cell = run["cells"][0];
  EXPECT_EQ(cell["validity"]["agree"], true);
  EXPECT_EQ(cell["limits"]["threads"], 2);
  for (const Json& arm : cell["arms"]) {
    EXPECT_EQ(arm["threads"], 2) << arm["name"];
  }
}

TEST(Flags, FusedKernelsThatLoseCanBeLeftOut) {
  TemporaryFolder folder;
  EXPECT_THAT(refused({"run", "micro/fusion", "--veto-losses", "--metric", "time,instructions"}, folder.path()).error,
              HasSubstr("leave out one of the two"));
  EXPECT_THAT(run_folders(folder.path()), IsEmpty());
  const Json run = run_json({"micro/fusion", "--veto-losses", "--arms", "eager,+simplify,graph"}, folder.path());
  EXPECT_EQ(run["plan"]["veto_losses"], true);
  const Json& cell = run["cells"][0];
  EXPECT_EQ(cell["validity"]["agree"], true);
  EXPECT_THAT(cell["reproduce"].get<std::string>(), HasSubstr("--veto-losses"));
  const Json& fused = cell["arms"][2]["fused"];
  ASSERT_THAT(fused, SizeIs(1));
  EXPECT_EQ(fused[0]["vetoed"], fused[0]["loss"]);
  EXPECT_EQ(cell["arms"][2]["exact"]["dispatches"], fused[0]["vetoed"] == true ? 10 : 1);
}

TEST(Flags, WhatMultipliesMatrices) {
  TemporaryFolder folder;
  EXPECT_THAT(refused({"run", "mlp/digits", "--gemm", "mkl"}, folder.path()).error, HasSubstr("tiles,openblas"));
  EXPECT_THAT(run_folders(folder.path()), IsEmpty());
  const auto measured = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"mlp/digits", "--metric", "instructions", "--arms", "eager,graph"});
    const TemporaryFolder own_folder;
    return run_json(arguments, own_folder.path());
  };
  const Json own = measured({});
  const Json blas = measured({"--gemm", "openblas"});
  EXPECT_EQ(own["plan"]["gemm"], "tiles");
  EXPECT_EQ(own["environment"]["engine"]["gemm"], "tiles");
  for (const Json* run : {&own, &blas}) {
    EXPECT_EQ((*run)["cells"][0]["validity"]["agree"], true) << "both arms multiply in the same way";
  }
  EXPECT_EQ(blas["environment"]["engine"]["gemm"], "openblas");
  EXPECT_THAT(blas["cells"][0]["reproduce"].get<std::string>(), HasSubstr("--gemm openblas"));
  // The processes that count have been told: they execute other instructions.
  const auto instructions = [](const Json& run) { return run["cells"][0]["arms"][0]["instructions"]["value"]; };
  if (instructions(own).is_null()) {
    GTEST_SKIP() << "no valgrind: nothing was counted";
  }
  EXPECT_NE(instructions(own), instructions(blas));
}

TEST(Arms, OpenBlasBesideTilesInTheSameRounds) {
  TemporaryFolder folder;
  const Json run = run_json({"attention/block", "--quick", "--arms", "eager,eager-openblas,graph"}, folder.path());
  EXPECT_EQ(run["plan"]["gemm"], "tiles");
  for (const Json& cell : run["cells"]) {
    EXPECT_EQ(cell["validity"]["agree"], true);
    ASSERT_THAT(cell["arms"], SizeIs(3));
    EXPECT_EQ(cell["arms"][1]["name"], "eager-openblas");
    // Some of OpenBLAS's kernels add up short sums in our order.
    EXPECT_TRUE(cell["arms"][1].contains("ulp")) << "the bits may be others";
    EXPECT_FALSE(cell["arms"][2].contains("ulp")) << "graph has eager's bits";
    for (const Json& process : cell["processes"]) {
      for (const Json& round : process["rounds"]) {
        EXPECT_THAT(round["seconds"], SizeIs(3));
      }
    }
  }
}

TEST(Metrics, ExactAloneTimesNothing) {
  TemporaryFolder folder;
  Outcome outcome;
  const Json run = run_json({"mlp/digits", "micro/dispatch", "--metric", "exact"}, folder.path(), &outcome);
  EXPECT_EQ(run["status"], "complete");
  ASSERT_THAT(run["cells"], SizeIs(2));
  for (const Json& cell : run["cells"]) {
    EXPECT_THAT(cell["processes"], IsEmpty());
    EXPECT_THAT(cell["comparisons"], IsEmpty());
    for (const Json& arm : cell["arms"]) {
      EXPECT_GT(arm["exact"]["dispatches"], 0);
      EXPECT_TRUE(arm["seconds"].is_null());
      EXPECT_FALSE(arm.contains("instructions"));
    }
  }
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("counted, not timed"), HasSubstr("dispatches"), Not(HasSubstr("INVALID"))));
  const fs::path written = run_folder(folder.path());
  EXPECT_THAT(read_text(written / "summary.md"), AllOf(HasSubstr("| micro/dispatch |"), Not(HasSubstr("INVALID"))));
  EXPECT_THAT(read_text(written / "report.html"), AllOf(HasSubstr("Exact counters"), Not(HasSubstr("INVALID"))));
  EXPECT_EQ(diptych({"report", written.string()}, folder.path()).exit_code, 0);
}

bool has_valgrind() { return access("/usr/bin/valgrind", X_OK) == 0; }

double instructions_of(const Json& run, const std::string& name) {
  const Json& instructions = reports::member(run["cells"][0]["arms"][name == "eager" ? 0 : 1], "instructions");
  EXPECT_TRUE(reports::number(instructions, "value")) << instructions;
  return reports::number(instructions, "value").value_or(-1);
}

// In folders of names of different lengths, with environments of different sizes.
TEST(Metrics, InstructionsRepeat) {
  if (!has_valgrind()) {
    GTEST_SKIP() << "no valgrind";
  }
  std::vector<Json> runs;
  for (const std::size_t padding : {0UL, 1000UL, 5003UL}) {
    TemporaryFolder folder;
    Command command = diptych_command({"run", "micro/dispatch", "--arms", "eager,graph", "--metric", "instructions",
                                       "--out", std::string(1 + padding / 50, 'o')},
                                      folder.path());
    command.environment["PADDING"] = std::string(padding, 'x');
    ASSERT_EQ(run_command(command).exit_code, 0);
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
      if (entry.path().filename() == "run.json") {
        runs.push_back(read_json(entry.path()));
      }
    }
  }
  ASSERT_THAT(runs, SizeIs(3));
  for (const char* arm : {"eager", "graph"}) {
    for (const Json& run : runs) {
      EXPECT_NEAR(instructions_of(run, arm) / instructions_of(runs[0], arm), 1, 0.001) << arm;
    }
  }
  EXPECT_GT(instructions_of(runs[0], "eager"), 2 * instructions_of(runs[0], "graph"));
}

TEST(Metrics, WithoutValgrindThereIsAReason) {
  TemporaryFolder folder;
  Command command =
      diptych_command({"run", "micro/dispatch", "--arms", "eager", "--metric", "instructions"}, folder.path());
  command.environment["PATH"] = "/nowhere";
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.error, HasSubstr("valgrind is not installed"));
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  EXPECT_THAT(reports::validate(run), IsEmpty());
  const Json& instructions = run["cells"][0]["arms"][0]["instructions"];
  EXPECT_TRUE(instructions["value"].is_null());
  EXPECT_THAT(instructions["reason"].get<std::string>(), HasSubstr("valgrind"));
}

TEST(Injection, OnePercentOfTheInstructionsIsSeen) {
  if (!has_valgrind()) {
    GTEST_SKIP() << "no valgrind";
  }
  TemporaryFolder plain_folder;
  TemporaryFolder folder;
  const std::vector<std::string> arguments = {"mlp/digits", "--arms", "eager,graph", "--metric", "instructions"};
  const Json plain = run_json(arguments, plain_folder.path());
  std::vector<std::string> slow = arguments;
  slow.insert(slow.end(), {"--inject-instructions", "0.01"});
  Outcome outcome;
  const Json injected = run_json(slow, folder.path(), &outcome);
  EXPECT_EQ(injected["injected"], Json({{"time", 0.0}, {"instructions", 0.01}, {"arms", Json::array()}}));
  EXPECT_FALSE(plain.contains("injected"));
  EXPECT_NEAR(instructions_of(injected, "eager") / instructions_of(plain, "eager"), 1, 0.001);
  EXPECT_NEAR(instructions_of(injected, "graph") / instructions_of(plain, "graph"), 1.01, 0.001);
  EXPECT_THAT(outcome.output, HasSubstr("on purpose"));
  EXPECT_THAT(read_text(run_folder(folder.path()) / "report.html"), HasSubstr("on purpose"));
}

// +simplify finds nothing to simplify here, so both arms run the same instructions in the same rounds, and what the
// machine does to them cancels.
// A valgrind that never ends stands in for a workload that is too large for it.
TEST(Metrics, ValgrindsTimeIsLimitedAndTheLimitIsTheUsers) {
  TemporaryFolder folder;
  write_text(folder.path() / "valgrind", "#!/bin/sh\nexec sleep 60\n");
  fs::permissions(folder.path() / "valgrind", fs::perms::owner_all);
  Command command = diptych_command(
      {"run", "micro/dispatch", "--arms", "eager", "--metric", "instructions", "--instructions-timeout", "1"},
      folder.path());
  command.environment["PATH"] = folder.path().string() + ":/usr/bin:/bin";
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("counting micro/dispatch under valgrind took longer than 1 s"),
                                   HasSubstr("--instructions-timeout")));
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  const Json& instructions = run["cells"][0]["arms"][0]["instructions"];
  EXPECT_TRUE(instructions["value"].is_null());
  EXPECT_THAT(instructions["reason"].get<std::string>(), HasSubstr("longer than 1 s"));
  EXPECT_EQ(run["cells"][0]["arms"][0]["exact"]["dispatches"], 100);  // what needs no valgrind is there
  EXPECT_THAT(refused({"run", "micro/dispatch", "--inject-time", "nan"}, folder.path()).error,
              HasSubstr("'nan' is no"));
  for (const char* limit : {"0", "-1", "nan", "soon", "1e9"}) {
    EXPECT_THAT(refused({"run", "micro/dispatch", "--instructions-timeout", limit}, folder.path()).error,
                HasSubstr("--instructions-timeout"))
        << limit;
  }
  expect_passed(outcome.seconds, 15, outcome.machine);
}

// On this machine's own kernel: numbers, or null with the reason, and never a 0 in place of either.
TEST(UsageOfARun, EveryArmHasMemoryAndCountersOrAReason) {
  TemporaryFolder folder;
  Outcome outcome;
  const Json run = run_json({"micro/dispatch", "micro/fusion"}, folder.path(), &outcome);
  for (const Json& cell : run["cells"]) {
    for (const Json& process : cell["processes"]) {
      EXPECT_EQ(process["after"], cell["workload"] == "micro/fusion" ? Json({"micro/dispatch"}) : Json::array());
    }
    for (const Json& arm : cell["arms"]) {
      const Json& memory = arm["memory"];
      EXPECT_TRUE(memory["peak_rss_bytes"].is_null() ? memory.contains("reason") : memory["peak_rss_bytes"] > 1 << 20);
      EXPECT_TRUE(memory["page_faults"].is_null() ? memory.contains("reason") : memory["page_faults"] >= 0);
      const Json& counters = arm["counters"];
      for (const char* field : {"cycles", "instructions", "cache_misses", "branch_misses"}) {
        EXPECT_TRUE(counters[field].is_null() ? counters.contains("reason") : counters[field] >= 0) << arm;
      }
      if (counters["cycles"].is_null()) {
        EXPECT_THAT(outcome.output, HasSubstr("No hardware counters: "));
        EXPECT_THAT(read_text(run_folder(folder.path()) / "summary.md"), HasSubstr("No hardware counters: "));
        EXPECT_THAT(read_text(run_folder(folder.path()) / "report.html"), HasSubstr("No hardware counters: "));
      } else {
        EXPECT_GT(counters["cycles"], 0);
      }
    }
  }
}

}  // namespace
}  // namespace diptych::testing
