// Runs that are continued, and numbers that are measured again.

#include <csignal>

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

/// [process] -> what the seed decides: its own seed and the orders of its rounds.
std::vector<Json> schedule(const Json& cell) {
  std::vector<Json> result;
  for (const Json& process : cell["processes"]) {
    Json orders = Json::array();
    for (const Json& round : process["rounds"]) {
      orders.push_back(round["order"]);
    }
    result.push_back({process["seed"], orders});
  }
  return result;
}

TEST(Resume, GoesOnAsIfNothingHadBeen) {
  TemporaryFolder folder;
  const std::vector<std::string> arguments = {"run",    "micro/dispatch", "micro/fusion", "--gate",
                                              "--arms", "eager",          "--seed",       "5"};
  Process process(diptych_command(arguments, folder.path()));
  ASSERT_TRUE(process.wait_until([&] { return has_run_json(folder.path()); }));
  process.send(SIGINT);
  EXPECT_EQ(process.finish().exit_code, 130);
  const fs::path written = run_folder(folder.path());
  const Json before = read_json(written / "run.json");
  EXPECT_EQ(before["status"], "interrupted");
  ASSERT_FALSE(before["cells"].empty());

  const Outcome outcome = diptych({"run", "--resume", written.string(), "--seed", "5"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(run_folder(folder.path()), written);  // no other one
  const Json after = read_json(written / "run.json");
  EXPECT_THAT(reports::validate(after), IsEmpty());
  EXPECT_EQ(after["status"], "complete");
  EXPECT_EQ(after["resumed"], 1);
  EXPECT_EQ(after["created"], before["created"]);
  ASSERT_THAT(after["cells"], SizeIs(2));
  for (std::size_t i = 0; i < before["cells"][0]["processes"].size(); ++i) {  // none of those was measured again
    EXPECT_EQ(after["cells"][0]["processes"][i], before["cells"][0]["processes"][i]);
  }

  TemporaryFolder other;
  ASSERT_EQ(diptych(arguments, other.path()).exit_code, 0);
  const Json whole = read_json(run_folder(other.path()) / "run.json");
  for (std::size_t cell = 0; cell < 2; ++cell) {
    EXPECT_EQ(after["cells"][cell]["workload"], whole["cells"][cell]["workload"]);
    EXPECT_EQ(schedule(after["cells"][cell]), schedule(whole["cells"][cell]));
  }

  const std::string text = read_text(written / "run.json");
  const Outcome again = diptych({"run", "--resume", written.string()}, folder.path());
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.output, HasSubstr("nothing to do"));
  EXPECT_EQ(read_text(written / "run.json"), text);
}

/// A finished run of one cell, whose file the tests change.
const Json& finished_dispatch_run() {
  static const Json run = [] {
    TemporaryFolder folder;
    return run_json({"micro/dispatch", "--seed", "11"}, folder.path());
  }();
  return run;
}

TEST(Resume, MakesUpForAProcessThatDied) {
  TemporaryFolder folder;
  Json run = finished_dispatch_run();
  run["cells"][0]["processes"].erase(1);
  run["status"] = "partial";
  run["environment"]["build"]["sha256"] = std::string(64, '0');  // of another revision, but with the same code
  write_text(folder.path() / "run.json", run.dump());
  const Outcome outcome = diptych({"run", "--resume", "run.json"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  const Json after = read_json(folder.path() / "run.json");
  EXPECT_EQ(after["status"], "complete");
  EXPECT_EQ(schedule(after["cells"][0]), schedule(finished_dispatch_run()["cells"][0]));
  EXPECT_EQ(after["cells"][0]["processes"][0], run["cells"][0]["processes"][0]);
  EXPECT_EQ(after["cells"][0]["processes"][2], run["cells"][0]["processes"][1]);
}

TEST(Resume, RefusesWhatContradictsTheRun) {
  TemporaryFolder folder;
  Json run = finished_dispatch_run();
  run["status"] = "partial";
  const std::string text = run.dump();
  write_text(folder.path() / "run.json", text);
  const auto expect_refused = [&](std::vector<std::string> flags, const std::vector<std::string>& said) {
    flags.insert(flags.begin(), {"run", "--resume", "run.json"});
    const Outcome outcome = refused(flags, folder.path());
    for (const std::string& part : said) {
      EXPECT_THAT(outcome.error, HasSubstr(part));
    }
  };
  expect_refused({"--seed", "12"}, {"--seed contradicts", "11"});
  expect_refused({"--standard"}, {"--size contradicts", "quick"});
  expect_refused({"--arms", "eager"}, {"--arms contradicts", "graph"});
  expect_refused({"micro/fusion"}, {"the workload contradicts", "micro/dispatch"});
  expect_refused({"--metric", "exact"}, {"--metric contradicts", "time"});
  expect_refused({"--pin"}, {"--pin contradicts"});
  expect_refused({"--inject-time", "0.1"}, {"--inject-time contradicts"});
  expect_refused({"--out", "x"}, {"--out"});
  expect_refused({"--", "--benchmark_filter=x"}, {"behind --"});
  EXPECT_EQ(read_text(folder.path() / "run.json"), text);

  // The code decides: the file's hash also differs where only the revision in it does.
  run["environment"]["build"]["sha256"] = std::string(64, '0');
  run["environment"]["build"]["code_sha256"] = std::string(64, '0');
  write_text(folder.path() / "run.json", run.dump());
  expect_refused({}, {"another build", "000000000000"});
  run = finished_dispatch_run();
  run["status"] = "interrupted";
  run["environment"]["cpu"]["model"] = "Another CPU";
  write_text(folder.path() / "run.json", run.dump());
  expect_refused({}, {"another machine", "Another CPU"});
  run = finished_dispatch_run();
  run["status"] = "interrupted";
  run.erase("plan");
  write_text(folder.path() / "run.json", run.dump());
  expect_refused({}, {"no \"plan\"", "measure it again"});
  run = finished_dispatch_run();
  run["status"] = "interrupted";
  run["plan"]["workloads"] = {"micro/\x1b[31mgone"};
  write_text(folder.path() / "run.json", run.dump());
  expect_refused({}, {"no workload"});
  EXPECT_FALSE(has_control_characters(refused({"run", "--resume", "run.json"}, folder.path()).error));
}

// Each would write its own processes over those of the other.
TEST(Resume, OfOneRunByTwoAtOnceIsRefused) {
  TemporaryFolder folder;
  Process first(diptych_command({"run", "micro/dispatch", "--standard", "--arms", "eager"}, folder.path()));
  ASSERT_TRUE(first.wait_until([&] { return has_run_json(folder.path()); }));
  const fs::path written = run_folder(folder.path());
  const auto expect_refusal = [&](const std::string& how) {
    const std::string before = read_text(written / "run.json");
    for (const fs::path& typed : {written, written / "run.json", written.parent_path() / "latest"}) {
      EXPECT_THAT(refused({"run", "--resume", typed.string()}, folder.path()).error,
                  AllOf(HasSubstr("another `diptych run` is measuring into"), HasSubstr(written.filename().string())))
          << how;
    }
    EXPECT_EQ(Json::parse(before)["created"], read_json(written / "run.json")["created"]);
  };
  expect_refusal("the run itself");
  first.send(SIGKILL);
  EXPECT_EQ(first.finish().signal, SIGKILL);

  Process second(diptych_command({"run", "--resume", written.string()}, folder.path()));
  ASSERT_TRUE(second.wait_until([&] { return !second.children().empty(); }));
  expect_refusal("the run that was resumed");
  second.send(SIGINT);
  EXPECT_EQ(second.finish().exit_code, 130);
  EXPECT_EQ(read_json(written / "run.json")["resumed"], 1);
  Process third(diptych_command({"run", "--resume", written.string()}, folder.path()));  // the lock ended with it
  EXPECT_TRUE(third.wait_until([&] { return !third.children().empty(); }));
}

TEST(Resume, OfWhatIsNoRun) {
  TemporaryFolder folder;
  EXPECT_THAT(refused({"run", "--resume", "missing"}, folder.path()).error, HasSubstr("no such file"));
  write_text(folder.path() / "run.json", R"({"schema": "diptych.run/1")");
  EXPECT_THAT(refused({"run", "--resume", "run.json"}, folder.path()).error, HasSubstr("cut off"));
}

TEST(Reproduce, NamesCommandSeedAndBuild) {
  TemporaryFolder folder;
  write_text(folder.path() / "run.json", finished_dispatch_run().dump());
  const Outcome outcome = diptych({"reproduce", "run.json", "micro/dispatch"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, HasSubstr("diptych run micro/dispatch --quick --seed 11\n"));
  for (const Json& process : finished_dispatch_run()["cells"][0]["processes"]) {
    EXPECT_THAT(outcome.output, HasSubstr(process["seed"].dump()));
  }
  const std::string hash = finished_dispatch_run()["environment"]["build"]["sha256"];
  EXPECT_THAT(outcome.output, HasSubstr(hash));
  EXPECT_THAT(run_folders(folder.path()), IsEmpty());  // said, not run

  Json other = finished_dispatch_run();
  other["environment"]["build"]["sha256"] = std::string(64, 'a');
  other["environment"]["cpu"]["model"] = "A \x1b[31mred CPU";
  write_text(folder.path() / "run.json", other.dump());
  const Outcome differs = diptych({"reproduce", ".", "micro/dispatch", "--arm", "graph"}, folder.path());
  EXPECT_EQ(differs.exit_code, 0) << differs.error;
  EXPECT_THAT(differs.output, AllOf(HasSubstr("--arms eager,graph"), HasSubstr("build.sha256: aaaa"),
                                    HasSubstr("cpu.model: A \\x1b[31mred CPU"), Not(HasSubstr("replay"))));
}

TEST(Reproduce, RunsItAgain) {
  TemporaryFolder folder;
  write_text(folder.path() / "run.json", finished_dispatch_run().dump());
  const Outcome outcome = diptych({"reproduce", "run.json", "micro/dispatch", "--run"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  const Json again = read_json(run_folder(folder.path()) / "run.json");
  EXPECT_EQ(schedule(again["cells"][0]), schedule(finished_dispatch_run()["cells"][0]));
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("recorded"), HasSubstr("came out again")));
}

TEST(Reproduce, RefusesWhatIsNotThere) {
  TemporaryFolder folder;
  write_text(folder.path() / "run.json", finished_dispatch_run().dump());
  EXPECT_THAT(refused({"reproduce", "run.json", "micro/dispatc"}, folder.path()).error,
              AllOf(HasSubstr("no cell 'micro/dispatc'"), HasSubstr("'micro/dispatch'")));
  EXPECT_THAT(refused({"reproduce", "run.json", "micro/dispatch", "--arm", "graf"}, folder.path()).error,
              AllOf(HasSubstr("no arm 'graf'"), HasSubstr("'graph'")));
  EXPECT_THAT(refused({"reproduce", "run.json", "\x1b[31m"}, folder.path()).error, HasSubstr("\\x1b[31m"));
  EXPECT_THAT(refused({"reproduce", "missing.json", "micro/dispatch"}, folder.path()).error, HasSubstr("no such file"));
  EXPECT_THAT(refused({"reproduce", "run.json"}, folder.path()).error, HasSubstr("cell"));
}

TEST(DeadWorkerOfARun, LeavesTheOtherCellsOfItsProcess) {
  TemporaryFolder folder;
  Process process(diptych_command({"run", "micro/dispatch", "micro/fusion", "--arms", "eager"}, folder.path()));
  // The first cell is saved, so the first process is at its second one.
  ASSERT_TRUE(process.wait_until([&] { return has_run_json(folder.path()) && !process.children().empty(); }));
  kill(process.children().front(), SIGKILL);
  EXPECT_EQ(process.finish().exit_code, 1);
  const fs::path written = run_folder(folder.path());
  const Json run = read_json(written / "run.json");
  EXPECT_EQ(run["status"], "partial");
  ASSERT_THAT(run["cells"], SizeIs(2));
  std::size_t processes = run["cells"][0]["processes"].size() + run["cells"][1]["processes"].size();
  EXPECT_GE(processes, 4U);
  EXPECT_LE(processes, 5U);
  const Outcome outcome = diptych({"run", "--resume", written.string()}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  const Json cells = read_json(written / "run.json")["cells"];
  for (const Json& cell : cells) {
    EXPECT_THAT(cell["processes"], SizeIs(3));
  }
}

}  // namespace
}  // namespace diptych::testing
