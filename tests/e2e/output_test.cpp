// Where output goes: lost output is an error, `--json -` is a document, `latest` is the last run, and what takes long
// says how long.

#include <csignal>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/run/schema.h"
#include "tests/e2e/program.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

TEST(LostOutput, IsAnErrorOfEveryVerb) {
  for (const std::vector<std::string>& verb :
       std::vector<std::vector<std::string>>{{},
                                             {"--help"},
                                             {"--version"},
                                             {"help", "run"},
                                             {"run", "--help"},
                                             {"doctor"},
                                             {"doctor", "--json"},
                                             {"list"},
                                             {"list", "--ops"},
                                             {"completion", "bash"},
                                             {"onnx", "ops"},
                                             {"run", "micro/dispatch", "--metric", "exact"},
                                             {"graph", "micro/dispatch", "--stage", "final"}}) {
    const std::string name = verb.empty() ? "" : verb.back();
    TemporaryFolder folder;
    const Outcome full = shell("exec \"$0\" \"$@\" >/dev/full", verb, folder.path());
    EXPECT_EQ(full.exit_code, 1) << name;
    EXPECT_THAT(full.error, AllOf(HasSubstr("diptych: cannot write to standard output"), HasSubstr("is lost"))) << name;
  }
  TemporaryFolder folder;
  EXPECT_THAT(shell("exec \"$0\" list >/dev/full", {}, folder.path()).error, HasSubstr("No space left on device"));
  // What was measured is kept.
  const Outcome run = shell("exec \"$0\" run micro/dispatch --metric exact >/dev/full", {}, folder.path());
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(read_json(run_folder(folder.path()) / "run.json")["status"], "complete");
}

/// What a terminal shows of the verb's standard error; `always`: however little time it takes.
std::string shown_by(const std::vector<std::string>& verb, const fs::path& folder, bool always) {
  Command command = diptych_command(verb, folder);
  if (always) {
    command.environment["DIPTYCH_PROGRESS"] = "always";
  }
  command.terminal = Terminal::error;
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  return outcome.error;
}

TEST(Progress, IsShownWhereAComparisonTakesLong) {
  TemporaryFolder folder;
  const auto put = [&](const std::string& name, int count) {
    Json benchmarks = Json::array();
    for (int i = 0; i < count; ++i) {
      for (int repetition = 0; repetition < 3; ++repetition) {
        benchmarks.push_back({{"name", "BM_" + std::to_string(i)}, {"real_time", 20 + 0.1 * repetition}});
      }
    }
    write_text(folder.path() / name, Json{{"context", {{"host_name", "here"}}}, {"benchmarks", benchmarks}}.dump());
  };
  put("long.json", 1'000);
  put("short.json", 10);
  EXPECT_THAT(shown_by({"compare", "long.json", "long.json", "--force-time"}, folder.path(), true),
              AllOf(HasSubstr("comparing: "), HasSubstr(" %")));
  EXPECT_EQ(shown_by({"compare", "short.json", "short.json", "--force-time"}, folder.path(), false), "");
}

TEST(Progress, IsShownWhereTheGraphsPageTakesLong) {
  TemporaryFolder folder;
  std::string text = "graph \"long\"(%0: f32[4] argument \"x\") {\n";
  constexpr int kOps = 1'500;
  for (int i = 0; i < kOps; ++i) {  // no series of them repeats
    const char* op = i * i % 7 < 2 ? "tanh" : i * i % 11 < 4 ? "exp" : i % 13 == 0 ? "neg" : "sigmoid";
    text += "  %" + std::to_string(i + 1) + ": f32[4] = " + op + "(%" + std::to_string(i) + ")\n";
  }
  write_text(folder.path() / "long.txt", text + "  return %" + std::to_string(kOps) + "\n}\n");
  EXPECT_THAT(shown_by({"graph", "long.txt", "--format", "html"}, folder.path(), true),
              HasSubstr("graph.html: picture "));
}

TEST(LostOutput, AClosedOneIsNoPlaceForFiles) {
  TemporaryFolder folder;
  const Outcome outcome = shell("exec \"$0\" run micro/dispatch --metric exact >&-", {}, folder.path());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, HasSubstr("cannot write to standard output"));
  EXPECT_THAT(reports::validate(read_json(run_folder(folder.path()) / "run.json")), IsEmpty());
}

TEST(JsonOfARun, GoesToStandardOutputAlone) {
  for (const char* verb : {"run", "ladder"}) {
    TemporaryFolder folder;
    const Outcome outcome = diptych({verb, "micro/dispatch", "--metric", "exact", "--json", "-"}, folder.path());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
    const Json run = Json::parse(outcome.output);
    EXPECT_THAT(reports::validate(run), IsEmpty());
    EXPECT_EQ(run, read_json(run_folder(folder.path()) / "run.json"));
    EXPECT_THAT(outcome.error, AllOf(HasSubstr("micro/dispatch"), HasSubstr("report.html")));
    EXPECT_EQ(diptych({verb, "micro/dispatch", "--metric", "exact", "--json", "copy.json"}, folder.path()).error, "");
    EXPECT_EQ(read_json(folder.path() / "copy.json")["schema"], "diptych.run/1");
  }
}

TEST(JsonOfARun, ThatIsLostIsAnError) {
  TemporaryFolder folder;
  const Outcome outcome = shell("exec \"$0\" run micro/dispatch --metric exact --json - >/dev/full", {}, folder.path());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, HasSubstr("cannot write to standard output: No space left on device"));
}

TEST(LatestRun, IsTheLastOne) {
  TemporaryFolder folder;
  const fs::path latest = folder.path() / "diptych-out" / "latest";
  for (const char* workload : {"micro/dispatch", "micro/fusion"}) {
    ASSERT_EQ(diptych({"run", workload, "--metric", "exact"}, folder.path()).exit_code, 0);
    EXPECT_TRUE(fs::is_symlink(latest));
    EXPECT_EQ(fs::read_symlink(latest).string().find('/'), std::string::npos);  // the folder may be moved as a whole
    EXPECT_EQ(read_json(latest / "run.json")["cells"][0]["workload"], workload);
  }
  ASSERT_EQ(diptych({"graph", "micro/dispatch", "--stage", "final"}, folder.path()).exit_code, 0);  // is no run
  EXPECT_EQ(diptych({"report", "diptych-out/latest"}, folder.path()).exit_code, 0);
  EXPECT_EQ(diptych({"run", "--resume", "diptych-out/latest"}, folder.path()).exit_code, 0);
  EXPECT_THAT(run_folders(folder.path()), SizeIs(3));

  fs::remove(latest);
  write_text(latest, "mine");
  EXPECT_EQ(diptych({"run", "micro/dispatch", "--metric", "exact"}, folder.path()).exit_code, 0);
  EXPECT_EQ(read_text(latest), "mine");
  EXPECT_THAT(unfinished_files(folder.path()), IsEmpty());
}

TEST(LongRuns, SayWhereTheyAreAndHowLongTheyStillTake) {
  TemporaryFolder folder;
  Command command = diptych_command({"run", "micro/dispatch", "micro/fusion", "--quick"}, folder.path());
  command.terminal = Terminal::error;
  const Outcome outcome = run_command(command);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const std::size_t second = outcome.error.find("process 2/3");
  ASSERT_NE(second, std::string::npos);
  EXPECT_THAT(outcome.error.substr(0, second), Not(HasSubstr("left")));
  EXPECT_TRUE(std::regex_search(outcome.error,
                                std::regex(R"(process 2/3  micro/fusion \(2/2\)  round 4/6  \d+ s, about \d+ s left)")))
      << outcome.error;
}

TEST(InterruptedRun, PrintsTheLineThatResumesIt) {
  TemporaryFolder folder;
  const std::string out = "it's \"$HOME\" \x1b[31m";
  Process process(diptych_command({"run", "micro/dispatch", "--gate", "--arms", "eager", "--out", out}, folder.path()));
  ASSERT_TRUE(process.wait_until([&] { return fs::exists(folder.path() / out / "latest" / "run.json"); }));
  process.send(SIGINT);
  const Outcome interrupted = process.finish();
  ASSERT_EQ(interrupted.exit_code, 130);
  EXPECT_FALSE(has_control_characters(interrupted.error));
  std::smatch line;
  ASSERT_TRUE(std::regex_search(interrupted.error, line, std::regex("\n  (.* run --resume .*)\n")))
      << interrupted.error;
  const Outcome resumed = shell(line[1], {}, folder.path());
  EXPECT_EQ(resumed.exit_code, 0) << line[1] << resumed.error;
  EXPECT_EQ(read_json(folder.path() / out / "latest" / "run.json")["status"], "complete");
  EXPECT_EQ(read_json(folder.path() / out / "latest" / "run.json")["resumed"], 1);
}

TEST(Peers, PrintsATableAndNamesItsFolder) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"peers", "micro/dispatch", "--arms", "eager,graph,ort"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, AllOf(Not(HasSubstr("|--")), Not(HasSubstr("\n# ")), HasSubstr("as fast as eager")));
  EXPECT_TRUE(run_folder(folder.path()).filename().string().ends_with("-peers"));
}

}  // namespace
}  // namespace diptych::testing
