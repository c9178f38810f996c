// What a gate that measures leaves behind: whole run files, also when something breaks on the way; programs of another
// age; calibrations that meet a full disk or lose a process.

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/run/schema.h"
#include "tests/e2e/other_program.h"
#include "tests/e2e/program.h"
#include "tests/e2e/small_disk.h"
#include "tests/support/places.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class GateRuns : public WithOtherPrograms {};

TEST_F(GateRuns, AreRunFilesLikeAnyOther) {
  const std::string other = put_program("other", script(""));
  const Outcome outcome =
      run({"gate", "--base", other, "--workloads", "micro/dispatch,micro/fusion", "--metrics", "exact", "--seed", "7"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.error;
  ASSERT_EQ(diptych({"run", "micro/dispatch", "--metric", "exact", "--out", "plain"}, folder_.path()).exit_code, 0);
  const json plain = read_json(fs::directory_iterator(folder_.path() / "plain")->path() / "run.json");
  for (const char* name : {"base.json", "head.json"}) {
    SCOPED_TRACE(name);
    const json run = read_json(written() / name);
    EXPECT_THAT(reports::validate(run), IsEmpty());
    for (const auto& [field, value] : plain.items()) {  // all that `run` writes
      EXPECT_TRUE(run.contains(field)) << field;
    }
    for (const auto& [section, value] : plain["environment"].items()) {
      EXPECT_TRUE(run["environment"].contains(section)) << section;
    }
    EXPECT_EQ(run["environment"]["engine"], plain["environment"]["engine"]);
    EXPECT_EQ(run["status"], "complete");
    EXPECT_EQ(run["plan"]["workloads"], json({"micro/dispatch", "micro/fusion"}));
    EXPECT_EQ(run["cells"][0]["reproduce"], "diptych run micro/dispatch --gate --seed 7 --metric exact" +
                                                std::string(name == std::string("head.json") ? " --layout 1" : ""));
    for (std::size_t arm = 0; arm < 3; ++arm) {
      EXPECT_EQ(run["cells"][0]["arms"][arm]["exact"], plain["cells"][0]["arms"][arm]["exact"]);
    }
    const std::string path = (written() / name).string();
    const Outcome report = run_command({{places::program(), "report", path}, folder_.path().string()});
    EXPECT_EQ(report.exit_code, 0) << report.error;
    EXPECT_THAT(report.output, HasSubstr("micro/fusion"));
    EXPECT_EQ(run_command({{places::program(), "reproduce", path, "micro/fusion"}, folder_.path().string()}).exit_code,
              0);
  }
  const Outcome compared =
      run({"compare", (written() / "base.json").string(), (written() / "head.json").string(), "--json", "c.json"});
  EXPECT_EQ(compared.exit_code, 0) << compared.error;
  EXPECT_EQ(read_json(folder_.path() / "c.json")["machine"]["same"], "same");
}

TEST_F(GateRuns, AProcessThatDiesCostsNothingThatWasMeasured) {
  // The second workload of head ends the process as the kernel does when memory is short.
  const std::string broken =
      put_program("broken", script("case \"$*\" in worker*'workloads\":[\"micro/fusion'*) kill -9 $$;; esac"));
  const Outcome outcome = run({"gate", "--base", places::program(), "--head", broken, "--workloads",
                               "micro/dispatch,micro/fusion", "--metrics", "exact"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("broken"), HasSubstr("signal 9 (Killed)"), HasSubstr("no verdict"),
                                   HasSubstr("what was measured until then is in")));
  const json head = read_json(written() / "head.json");
  EXPECT_THAT(reports::validate(head), IsEmpty());
  EXPECT_EQ(head["status"], "partial");
  ASSERT_THAT(head["cells"], SizeIs(1));
  EXPECT_EQ(head["cells"][0]["workload"], "micro/dispatch");
  EXPECT_THAT(read_json(written() / "base.json")["cells"], SizeIs(2));
  EXPECT_FALSE(fs::exists(written() / "gate.json"));
  EXPECT_THAT(unfinished_files(folder_.path()), IsEmpty());
}

TEST_F(GateRuns, TakeAModelForAWorkload) {
  const Outcome exported = run({"onnx", "export", "micro/fusion", "--out", "model"});
  if (exported.error.find("without ONNX") != std::string::npos) {
    GTEST_SKIP() << exported.error;
  }
  ASSERT_EQ(exported.exit_code, 0) << exported.error;
  const Outcome outcome = run({"gate", "--base", put_program("other", script("")), "--workloads", "model/model.onnx",
                               "--metrics", "exact", "--out", "gate"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.error;
  const json gate = read_json(fs::directory_iterator(folder_.path() / "gate")->path() / "gate.json");
  EXPECT_EQ(gate["verdict"], "PASS");
  ASSERT_FALSE(gate["rows"].empty());
  EXPECT_EQ(gate["rows"][0]["workload"], "model/model.onnx");
}

TEST_F(GateRuns, WhoseTurnItIsMayDie) {
  const std::string broken = put_program("broken", script("if [ \"$1\" = worker ]; then kill -9 $$; fi"));
  const Outcome outcome = run(
      {"gate", "--base", places::program(), "--head", broken, "--workloads", "micro/dispatch", "--metrics", "time"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("broken"), HasSubstr("signal 9 (Killed)")));
  EXPECT_EQ(read_json(written() / "base.json")["cells"][0]["processes"][0]["turns"], false);
}

TEST_F(GateRuns, CtrlCKeepsWhatWasMeasured) {
  const std::string other = put_program("other", script(""));
  Process process(diptych_command({"gate", "--base", other, "--workloads", "micro/dispatch,mlp/digits", "--metrics",
                                   "exact,time", "--arms", "eager"},
                                  folder_.path()));
  ASSERT_TRUE(process.wait_until([&] {
    const auto made = run_folders(folder_.path());
    return made.size() == 1 && fs::exists(made.front() / "head.json");
  }));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_THAT(outcome.error, HasSubstr("is no verdict"));
  for (const char* name : {"base.json", "head.json"}) {
    const json run = read_json(written() / name);
    EXPECT_THAT(reports::validate(run), IsEmpty());
    EXPECT_EQ(run["status"], "interrupted");
    ASSERT_FALSE(run["cells"].empty());
    EXPECT_THAT(run["cells"][0]["processes"], SizeIs(12));
  }
}

// Measuring processes of another version: the flags changed, or their protocol number in `list --json`.
TEST_F(GateRuns, ProgramsOfAnotherAgeAreNamed) {
  const auto refused = [&](const std::string& special) {
    const Outcome outcome = run(
        {"gate", "--base", put_program("old", script(special)), "--workloads", "micro/dispatch", "--metrics", "exact"});
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_FALSE(has_control_characters(outcome.error));
    return outcome.error;
  };
  EXPECT_THAT(refused("if [ \"$1 $2\" = 'list --json' ]; then printf 'no option \\033[1m--json' >&2; exit 1; fi"),
              AllOf(HasSubstr("old' doesn't answer `list --json`"), HasSubstr("exit code 1"), HasSubstr("no option"),
                    HasSubstr("of another age"), HasSubstr("give the gate the two run.json")));
  EXPECT_THAT(refused("if [ \"$1\" = list ]; then echo Workloads; exit 0; fi"), HasSubstr("doesn't answer"));
  EXPECT_THAT(refused("if [ \"$1\" = list ]; then echo '{\"worker_protocol\": 99}'; exit 0; fi"),
              AllOf(HasSubstr("speaks protocol 99"), HasSubstr("this gate 1"), HasSubstr("of another age")));
  EXPECT_THAT(refused("if [ \"$1\" = worker ]; then echo \"no option '--block-seconds'\" >&2; exit 1; fi"),
              AllOf(HasSubstr("no option '--block-seconds'"), HasSubstr("ended with exit code 1"),
                    HasSubstr("of another age")));
}

/// A project of three revisions, whose "build" copies a script: one that is too old for gates, a good one, another.
TEST_F(GateRuns, RefsOfAProjectsHistory) {
  const std::string git = "git -c user.name=t -c user.email=t@example.com ";
  write_text(folder_.path() / "CMakeLists.txt",
             "cmake_minimum_required(VERSION 3.25)\nproject(fake LANGUAGES NONE)\nadd_custom_target(diptych COMMAND "
             "${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/program ${CMAKE_BINARY_DIR}/diptych)\n");
  ASSERT_EQ(shell("git init -q -b main .").exit_code, 0);
  const auto commit = [&](const std::string& text, const std::string& tag) {
    put_program("program", text);
    ASSERT_EQ(shell("git add CMakeLists.txt program && " + git + "commit -qm " + tag + " && git tag " + tag).exit_code,
              0);
  };
  commit(script("if [ \"$1 $2\" = 'list --json' ]; then echo \"diptych: no option '--json'\" >&2; exit 1; fi"),
         "ancient");
  commit(script("", 'c'), "before");
  commit(script("", 'd'), "now");

  const auto gate = [&](const std::string& base, const std::string& head) {
    return run({"gate", "--base", base, "--head", head, "--workloads", "micro/dispatch", "--metrics", "exact",
                "--build-dir", "builds"});
  };
  const Outcome good = gate("before", "HEAD");
  EXPECT_EQ(good.exit_code, 0) << good.output << good.error;
  EXPECT_THAT(good.output, AllOf(HasSubstr("PASS"), HasSubstr("base before ("), HasSubstr("head HEAD (")));
  EXPECT_EQ(read_json(written() / "base.json")["environment"]["build"]["sha256"], std::string(64, 'c'));
  EXPECT_EQ(read_json(written() / "head.json")["environment"]["build"]["sha256"], std::string(64, 'd'));

  const Outcome ancient = gate("ancient", "HEAD");
  EXPECT_EQ(ancient.exit_code, 1);
  EXPECT_THAT(ancient.error, AllOf(HasSubstr("ancient ("), HasSubstr("builds, but this gate can't measure it"),
                                   HasSubstr("no option '--json'"), HasSubstr("choose a newer revision")));
  const Outcome unknown = gate("befor", "HEAD");
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.error, HasSubstr("'befor' is neither a run file, a program, nor a git ref"));
  EXPECT_EQ(shell("git worktree list | wc -l").output, "1\n");
  EXPECT_THAT(run_folders(folder_.path()), SizeIs(1)) << "what can't be measured makes no folder";
}

// Runs are kept as they grow, and the verdict is printed before it is written.
TEST(GateFullDisk, KeepsWhatFittedAndSaysWhatDidNot) {
  const TemporaryFolder programs;
  write_text(programs.path() / "other", script(""));
  fs::permissions(programs.path() / "other", fs::perms::owner_all);
  for (const std::size_t size : {16384, 65536}) {
    SmallDisk disk(size);
    if (!disk.mounted) {
      GTEST_SKIP() << "can't mount a small file system: " << disk.reason;
    }
    SCOPED_TRACE(size);
    const Outcome outcome = diptych({"gate", "--base", (programs.path() / "other").string(), "--workloads",
                                     "micro,mlp/digits", "--metrics", "exact", "--seed", "3"},
                                    disk.folder.path());
    EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
    EXPECT_THAT(outcome.error, AllOf(HasSubstr("cannot write"), HasSubstr("No space left on device"),
                                     HasSubstr("choose another folder with --out")));
    EXPECT_THAT(unfinished_files(disk.folder.path()), IsEmpty());
    for (const auto& entry : fs::recursive_directory_iterator(disk.folder.path())) {
      if (entry.path().extension() == ".json" && entry.path().filename() != "gate.json") {
        EXPECT_THAT(reports::validate(read_json(entry.path())), IsEmpty()) << entry.path();
      }
    }
    const std::vector<std::string> files = tree(disk.folder.path());
    if (size > 16384) {
      EXPECT_THAT(files, Contains(HasSubstr("base.json")));
    } else {
      EXPECT_THAT(files, Not(Contains(HasSubstr("gate.json"))));
    }
  }
}

TEST_F(GateRuns, ACalibrationKeepsItsRunsThroughAFullDiskAndADeadProcess) {
  const std::vector<std::string> append = {"calibrate",   "--append",       "aa.json", "--runs", "1",
                                           "--workloads", "micro/dispatch", "--arms",  "eager"};
  const Outcome first = run(append);
  ASSERT_EQ(first.exit_code, 0) << first.error;
  const std::string kept = read_text(folder_.path() / "aa.json");
  ASSERT_THAT(json::parse(kept)["runs"], SizeIs(1));

  Command full = diptych_command(append, folder_.path());
  full.file_size_limit = kept.size();
  const Outcome no_room = run_command(full);
  EXPECT_EQ(no_room.exit_code, 1) << "signal " << no_room.signal;
  EXPECT_THAT(no_room.error,
              AllOf(HasSubstr("aa.json"), HasSubstr("File too large"), HasSubstr("nothing was changed")));
  EXPECT_EQ(read_text(folder_.path() / "aa.json"), kept);

  Process process(diptych_command(append, folder_.path()));
  ASSERT_TRUE(process.wait_until([&] {
    for (const pid_t child : process.children()) {
      std::ifstream command("/proc/" + std::to_string(child) + "/cmdline");  // not there once the child has ended
      const std::string words{std::istreambuf_iterator<char>(command), std::istreambuf_iterator<char>()};
      if (words.find("worker") != std::string::npos) {
        kill(child, SIGKILL);
        return true;
      }
    }
    return false;
  }));
  const Outcome died = process.finish();
  EXPECT_EQ(died.exit_code, 1);
  EXPECT_THAT(died.error, HasSubstr("signal 9 (Killed)"));
  EXPECT_EQ(read_text(folder_.path() / "aa.json"), kept);
  EXPECT_THAT(unfinished_files(folder_.path()), IsEmpty());
}

}  // namespace
}  // namespace diptych::testing
