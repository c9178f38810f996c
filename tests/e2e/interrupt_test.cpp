// Ctrl-C, and measuring processes that die: what was measured is kept, nothing stays behind, nothing hangs.

#include <chrono>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/run/schema.h"
#include "tests/e2e/program.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::json;

TEST(Interrupt, CtrlCKeepsWhatWasMeasured) {
  TemporaryFolder folder;
  Command command = diptych_command({"run", "micro/dispatch", "--standard", "--arms", "eager"}, folder.path());
  command.terminal = Terminal::both;
  Process process(command);
  ASSERT_TRUE(process.wait_until([&] { return has_run_json(folder.path()); })) << process.so_far().output;
  process.type("\x03");
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.output;
  EXPECT_THAT(process.descendants(), IsEmpty());
  EXPECT_THAT(outcome.output, HasSubstr("interrupted; what was measured until then is kept"));

  const fs::path written = run_folder(folder.path());
  const Json run = read_json(written / "run.json");
  EXPECT_THAT(reports::validate(run), IsEmpty());
  EXPECT_EQ(run["status"], "interrupted");
  ASSERT_THAT(run["cells"], SizeIs(1));
  EXPECT_GE(run["cells"][0]["processes"].size(), 1U);
  EXPECT_LT(run["cells"][0]["processes"].size(), 8U);
  EXPECT_THAT(run["cells"][0]["processes"][0]["rounds"], SizeIs(12));
  EXPECT_THAT(unfinished_files(folder.path()), IsEmpty());
  EXPECT_THAT(tree(written), ::testing::IsSupersetOf({"report.html", "summary.md"}));
  EXPECT_EQ(diptych({"report", written.string()}, folder.path()).exit_code, 0);
}

TEST(Interrupt, BeforeTheFirstCellLeavesNothing) {
  TemporaryFolder folder;
  Process process(diptych_command({"run", "mlp/digits", "--standard"}, folder.path()));
  ASSERT_TRUE(process.wait_until([&] { return !process.children().empty(); }));
  process.send(SIGINT);
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.exit_code, 130);
  EXPECT_THAT(outcome.error, HasSubstr("interrupted before the first cell was measured"));
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(process.descendants(), IsEmpty());
  EXPECT_THAT(run_folders(folder.path()), IsEmpty());
}

TEST(Interrupt, TerminationIsTheSame) {
  TemporaryFolder folder;
  Process process(diptych_command({"run", "micro/dispatch", "--standard", "--arms", "eager"}, folder.path()));
  ASSERT_TRUE(process.wait_until([&] { return has_run_json(folder.path()); }));
  process.send(SIGTERM);
  EXPECT_EQ(process.finish().exit_code, 130);
  EXPECT_THAT(process.descendants(), IsEmpty());
  EXPECT_EQ(read_json(run_folder(folder.path()) / "run.json")["status"], "interrupted");
}

// The measuring process finds nobody to report to, and ends.
TEST(Interrupt, AKilledParentLeavesNoProcessForLong) {
  TemporaryFolder folder;
  Process process(diptych_command({"run", "micro/dispatch", "--standard", "--arms", "eager"}, folder.path()));
  ASSERT_TRUE(process.wait_until([&] { return !process.children().empty(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // so that it measures by now
  EXPECT_FALSE(process.descendants().empty());
  process.send(SIGKILL);
  EXPECT_EQ(process.finish().signal, SIGKILL);
  for (int attempt = 0; attempt < 100 && !process.descendants().empty(); ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_THAT(process.descendants(), IsEmpty());
}

TEST(DeadWorker, IsReportedAndTheOthersGoOn) {
  TemporaryFolder folder;
  Process process(diptych_command({"run", "micro/dispatch"}, folder.path()));
  ASSERT_TRUE(process.wait_until([&] { return !process.children().empty(); }));
  kill(process.children().front(), SIGKILL);
  const Outcome outcome = process.finish();
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, HasSubstr("measuring process 1 was ended by signal 9"));
  EXPECT_THAT(process.descendants(), IsEmpty());
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  EXPECT_THAT(reports::validate(run), IsEmpty());
  EXPECT_EQ(run["status"], "partial");
  ASSERT_THAT(run["cells"], SizeIs(1));
  EXPECT_THAT(run["cells"][0]["processes"], SizeIs(2));  // of three
  EXPECT_THAT(outcome.output, HasSubstr("micro/dispatch"));
  EXPECT_THAT(tree(run_folder(folder.path())), ::testing::IsSupersetOf({"report.html", "summary.md"}));
}

TEST(DeadWorker, AllDeadIsAnErrorWithoutAFolder) {
  TemporaryFolder folder;
  Process process(diptych_command({"run", "mlp/digits"}, folder.path()));
  process.wait_until([&] {
    for (const pid_t child : process.children()) {
      kill(child, SIGKILL);
    }
    return false;  // until it ends
  });
  const Outcome outcome = process.finish();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, HasSubstr("nothing was measured: measuring process 1 was ended by signal 9"));
  EXPECT_THAT(run_folders(folder.path()), IsEmpty());
}

// Only the first process checks every step and takes the metrics: if it dies, another one has to.
TEST(DeadWorker, TheFirstOnesCheckIsMadeUpFor) {
  TemporaryFolder folder;
  Process process(diptych_command({"run", "mlp/digits"}, folder.path()));
  ASSERT_TRUE(process.wait_until([&] { return !process.children().empty(); }));
  kill(process.children().front(), SIGKILL);
  process.finish();
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  ASSERT_THAT(run["cells"], SizeIs(1));
  EXPECT_FALSE(run["cells"][0]["metrics"].empty());
  EXPECT_THAT(run["cells"][0]["validity"]["checks"], ::testing::Not(::testing::Contains(HasSubstr("of 1 steps"))));
}

}  // namespace
}  // namespace diptych::testing
