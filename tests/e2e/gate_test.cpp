// `compare`, `gate` and `calibrate` as users run them: exit codes, what they print, what they leave behind.

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/run/json_access.h"
#include "tests/e2e/program.h"
#include "tests/support/places.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// One run of exact metrics, measured once for all tests.
const json& measured() {
  static const json run = [] {
    const TemporaryFolder folder;
    diptych({"run", "micro/dispatch", "--metric", "exact"}, folder.path());
    return read_json(run_folder(folder.path()) / "run.json");
  }();
  return run;
}

class Gate : public ::testing::Test {
 protected:
  std::string put(const std::string& name, const std::string& text) const {
    write_text(folder_.path() / name, text);
    return name;
  }
  std::string put(const std::string& name, const json& document) const { return put(name, document.dump()); }
  Outcome run(const std::vector<std::string>& arguments) const { return diptych(arguments, folder_.path()); }
  json gate_document() const { return read_json(run_folder(folder_.path()) / "gate.json"); }

  std::vector<std::string> gate_new(const std::string& out) const {
    const fs::path made = fs::directory_iterator(folder_.path() / out)->path();
    return read_json(made / "gate.json")["new"];
  }

  static json worse() {
    json run = measured();
    json& exact = run["cells"][0]["arms"][2]["exact"];
    exact["dispatches"] = exact["dispatches"].get<int>() + 1;
    return run;
  }

  TemporaryFolder folder_;
};

TEST_F(Gate, ComparesFilesAndFolders) {
  put("a.json", measured());
  fs::create_directory(folder_.path() / "b");
  put("b/run.json", worse());
  const Outcome outcome = run({"compare", "a.json", "b", "--json", "c.json", "--markdown", "c.md"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("REGRESSED:"), HasSubstr("dispatches")));
  EXPECT_EQ(read_json(folder_.path() / "c.json")["schema"], "diptych.compare/1");
  EXPECT_THAT(read_text(folder_.path() / "c.md"), HasSubstr("# REGRESSED"));
  EXPECT_THAT(unfinished_files(folder_.path()), IsEmpty());
}

TEST_F(Gate, ComparingNothingIsExitCode3) {
  json empty = measured();
  empty["cells"] = json::array();
  put("a.json", measured());
  put("empty.json", empty);
  const Outcome outcome = run({"compare", "a.json", "empty.json"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.error, HasSubstr("no cell in common"));
  EXPECT_EQ(run({"gate", "--base", "empty.json", "--head", "empty.json"}).exit_code, 3);
}

// On the terminal, not in the JSON alone.
TEST_F(Gate, WhyNothingComparesIsSaid) {
  put("a.json",
      std::string(
          R"({"context": {"host_name": "a"}, "benchmarks": [{"name": "BM_x", "real_time": 3, "time_unit": "ns"}]})"));
  put("b.json",
      std::string(
          R"({"context": {"host_name": "b"}, "benchmarks": [{"name": "BM_x", "real_time": 3, "time_unit": "ns"}]})"));
  const Outcome hosts = run({"compare", "a.json", "b.json"});
  EXPECT_EQ(hosts.exit_code, 3);
  for (const std::string& said : {hosts.output, hosts.error}) {
    EXPECT_THAT(said, AllOf(HasSubstr("benchmark.host_name: a / b"), HasSubstr("--force-time")));
  }
  const Outcome once = run({"compare", "a.json", "b.json", "--force-time"});
  EXPECT_EQ(once.exit_code, 0) << once.error;
  EXPECT_THAT(once.output, HasSubstr("--benchmark_repetitions=10"));
}

TEST_F(Gate, BrokenFilesAreRefusedByName) {
  put("good.json", measured());
  const std::string text = measured().dump();
  put("cut.json", text.substr(0, text.size() / 2));
  put("empty.json", std::string());
  put("other.json", std::string(R"({"schema": "other/1"})"));
  put("newer.json", std::string(R"({"schema": "diptych.run/9"})"));
  put("nan.json",
      std::string(R"({"context": {}, "benchmarks": [{"name": "BM_x", "real_time": NaN, "time_unit": "ns"}]})"));
  for (const auto& [name, said] :
       {std::pair("cut.json", "cut off"), std::pair("empty.json", "is empty"),
        std::pair("other.json", "not a run of Diptych"), std::pair("newer.json", "diptych.run/9"),
        std::pair("nan.json", "BM_x"), std::pair("none.json", "no such file")}) {
    const Outcome compared = run({"compare", "good.json", name});
    EXPECT_EQ(compared.exit_code, 1) << name;
    EXPECT_THAT(compared.error, HasSubstr(said)) << name;
    EXPECT_EQ(run({"gate", "--base", name, "--head", "good.json"}).exit_code, 1) << name;
  }
}

TEST_F(Gate, ExportsWhatCompareReads) {
  fs::create_directory(folder_.path() / "run");
  put("run/run.json", measured());
  EXPECT_EQ(run({"report", "run", "--format", "google-benchmark"}).exit_code, 0);
  EXPECT_TRUE(read_json(folder_.path() / "run/benchmark.json").contains("context"));
}

TEST_F(Gate, FilesPassRegressAndVanish) {
  put("a.json", measured());
  put("worse.json", worse());
  json less = measured();
  less["cells"][0]["arms"].erase(2);
  put("less.json", less);
  EXPECT_EQ(run({"gate", "--base", "a.json", "--head", "a.json", "--out", "same"}).exit_code, 0);
  const Outcome outcome = run({"gate", "--base", "a.json", "--head", "worse.json"});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output << outcome.error;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("REGRESSED: worse: micro/dispatch/graph dispatches"), Not(HasSubstr("::error"))));
  EXPECT_EQ(gate_document()["exit_code"], 2);
  EXPECT_TRUE(fs::exists(run_folder(folder_.path()) / "junit.xml"));
  EXPECT_THAT(read_text(run_folder(folder_.path()) / "gate.md"), HasSubstr("## Performance gate: REGRESSED"));
  const Outcome vanished = run({"gate", "--base", "a.json", "--head", "less.json", "--out", "less"});
  EXPECT_EQ(vanished.exit_code, 3);
  EXPECT_THAT(vanished.output, HasSubstr("Vanished from head: micro/dispatch/graph"));
}

TEST_F(Gate, AnnotatesOnGitHubAndOnRequest) {
  put("a.json", measured());
  put("worse.json", worse());
  Command command = diptych_command({"gate", "--base", "a.json", "--head", "worse.json"}, folder_.path());
  command.environment["GITHUB_ACTIONS"] = "true";
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("\n::error title=Regression%3A micro/dispatch/graph dispatches::"));
  EXPECT_THAT(run({"gate", "--base", "a.json", "--head", "worse.json", "--annotations"}).output, HasSubstr("::error "));
}

TEST_F(Gate, TheConfigurationIsReadBeforeAnythingElse) {
  put("a.json", measured());
  put("worse.json", worse());
  const std::vector<std::string> gate = {"gate", "--base", "a.json", "--head", "worse.json"};
  put("diptych.toml", std::string("[delta]\nexakt = 1\n"));
  const Outcome unknown = run(gate);
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.error, AllOf(HasSubstr("diptych.toml:2"), HasSubstr("did you mean 'exact'")));
  put("diptych.toml", std::string("[[mute]]\ncell = \"*\"\nuntil = 2001-01-01\nreason = \"old\"\n"));
  const Outcome expired = run(gate);
  EXPECT_EQ(expired.exit_code, 1);
  EXPECT_THAT(expired.error, AllOf(HasSubstr("diptych.toml:1"), HasSubstr("expired")));
  put("diptych.toml", std::string("[[mute]]\ncell = \"micro/dispatch/graph\"\nmetric = \"dispatches\"\nuntil = "
                                  "2999-01-01\nreason = \"known\"\n"));
  EXPECT_EQ(run(gate).exit_code, 0);
  EXPECT_EQ(run({"gate", "--base", "a.json", "--head", "worse.json", "--config", "none.toml"}).exit_code, 1);
}

TEST_F(Gate, WrongUsageIsExitCode1) {
  put("a.json", measured());
  EXPECT_THAT(run({"gate"}).error, HasSubstr("--base"));
  EXPECT_EQ(run({"gate"}).exit_code, 1);
  EXPECT_THAT(run({"gate", "--base", "no-such-ref", "--head", "a.json"}).error, HasSubstr("no-such-ref"));
  EXPECT_THAT(run({"gate", "--base", "a.json", "--metrics", "tine"}).error, HasSubstr("did you mean 'time'"));
  EXPECT_THAT(run({"gate", "--base", "a.json", "--workloads", "micro/dispach"}).error, HasSubstr("micro/dispatch"));
  EXPECT_THAT(run({"gate", "--base", "a.json", "--arms", "eagr"}).error, HasSubstr("did you mean 'eager'"));
  EXPECT_THAT(run({"compare", "a.json"}).error, HasSubstr("head"));
  put("not-diptych", std::string("#!/bin/sh\necho hello\n"));
  fs::permissions(folder_.path() / "not-diptych", fs::perms::owner_all);
  EXPECT_THAT(run({"gate", "--base", "./not-diptych", "--head", "a.json"}).error, HasSubstr("doesn't answer"));
}

TEST_F(Gate, AFileAgainstThisProgram) {
  put("a.json", measured());
  put("worse.json", worse());
  EXPECT_EQ(run({"gate", "--base", "a.json", "--workloads", "micro/dispatch", "--metrics", "exact", "--out", "same"})
                .exit_code,
            0);
  // Only what a run measures by default can be new, not every arm that exists.
  EXPECT_THAT(gate_new("same"), IsEmpty());
  // What the program has and the file lacks is named, not passed over.
  const Outcome all = run({"gate", "--base", "a.json", "--metrics", "exact", "--arms", "eager", "--out", "all"});
  EXPECT_THAT(all.output, HasSubstr("New in head: mlp/digits/eager"));
  json better = worse();
  json& exact = better["cells"][0]["arms"][2]["exact"];
  exact["dispatches"] = exact["dispatches"].get<int>() - 2;
  put("better.json", better);
  const Outcome outcome = run({"gate", "--base", "better.json", "--workloads", "micro/dispatch", "--metrics", "exact"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("measured again in fresh processes, 1 confirmed"));
}

TEST_F(Gate, TheSameProgramIsUnchanged) {
  const Outcome outcome = run({"gate", "--base", places::program(), "--head", places::program()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("unchanged"));
}

/// A repository whose "build" copies a script that stands in for the program.
TEST_F(Gate, GitRefsAreBuiltAndCleanedUp) {
  const auto shell = [&](const std::string& line) {
    return run_command({{"/bin/sh", "-c", line}, folder_.path().string()});
  };
  put("CMakeLists.txt", std::string("cmake_minimum_required(VERSION 3.25)\nproject(fake LANGUAGES NONE)\n"
                                    "add_custom_target(diptych COMMAND ${CMAKE_COMMAND} -E copy "
                                    "${CMAKE_SOURCE_DIR}/program ${CMAKE_BINARY_DIR}/diptych)\n"));
  put("program", "#!/bin/sh\nexec '" + places::program() + "' \"$@\"\n");
  const std::string git = "git -c user.name=t -c user.email=t@example.com ";
  ASSERT_EQ(shell("chmod +x program && git init -q -b main . && git add CMakeLists.txt program && " + git +
                  "commit -qm good && "
                  "echo 'message(FATAL_ERROR \"it is broken\")' >> CMakeLists.txt && git add CMakeLists.txt && " +
                  git + "commit -qm bad")
                .exit_code,
            0);
  const Outcome good =
      run({"gate", "--base", "HEAD~1", "--workloads", "micro/dispatch", "--metrics", "exact", "--build-dir", "builds"});
  EXPECT_EQ(good.exit_code, 0) << good.output << good.error;
  const Outcome bad = run({"gate", "--base", "main", "--build-dir", "builds"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.error, AllOf(HasSubstr("doesn't build"), HasSubstr("it is broken")));
  const std::string worktrees = shell("git worktree list").output;
  EXPECT_EQ(std::count(worktrees.begin(), worktrees.end(), '\n'), 1) << worktrees;
  // A cached build needs no second one.
  EXPECT_EQ(
      run({"gate", "--base", "HEAD~1", "--workloads", "micro/dispatch", "--metrics", "exact", "--build-dir", "builds"})
          .exit_code,
      0);
}

TEST_F(Gate, CalibrationsAreKeptAppendedAndLookedUp) {
  const std::vector<std::string> small = {"--workloads", "micro/dispatch", "--arms", "eager", "--runs", "1"};
  const auto calibrate = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "calibrate");
    arguments.insert(arguments.end(), small.begin(), small.end());
    return run(arguments);
  };
  const Outcome first = calibrate({"--append", "aa.json"});
  EXPECT_EQ(first.exit_code, 0) << first.error;
  const json document = read_json(folder_.path() / "aa.json");
  EXPECT_EQ(document["schema"], "diptych.aa/1");
  ASSERT_EQ(document["runs"].size(), 1u);
  EXPECT_EQ(document["runs"][0]["log_ratios"]["micro/dispatch/eager"].size(), 12u);
  EXPECT_THAT(calibrate({"--out", "aa.json"}).error, HasSubstr("--append"));
  EXPECT_THAT(run({"calibrate", "--append", "aa.json", "--workloads", "mlp/digits", "--runs", "1"}).error,
              HasSubstr("other workloads"));
  put("a.json", measured());
  // One run bounds nothing: times stay advisory, and the gate says why.
  const Outcome gate = run({"gate", "--base", "a.json", "--head", "a.json", "--calibration", "aa.json"});
  EXPECT_THAT(gate.output, HasSubstr("advisory"));
  put("cut.json", document.dump().substr(0, 200));
  EXPECT_EQ(run({"gate", "--base", "a.json", "--calibration", "cut.json", "--workloads", "micro/dispatch"}).exit_code,
            1);
}

}  // namespace
}  // namespace diptych::testing
