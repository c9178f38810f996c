// What an output is written to: links, pipes, devices and standard output stay what they are, closed streams are
// errors, and what killed programs leave goes.

#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fmt/format.h>
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
using Json = nlohmann::json;

/// A run of counts, which takes a second.
const std::string& counted_run() {
  static const std::string text = [] {
    TemporaryFolder folder;
    return run_json({"micro/dispatch", "--metric", "exact"}, folder.path()).dump();
  }();
  return text;
}

struct DocumentOption {
  std::vector<std::string> arguments;  ///< the option last, without its value
  std::string begin;                   ///< of the document
};

class OutputPlaces : public ::testing::TestWithParam<DocumentOption> {
 protected:
  OutputPlaces() { write_text(path() / "base.json", counted_run()); }
  const fs::path& path() const { return folder_.path(); }
  /// `script` has the command as "$0" "$@".
  Outcome in_shell(const std::string& script) const { return shell(script, GetParam().arguments, path()); }
  Outcome with(const std::string& place) const {
    std::vector<std::string> arguments = GetParam().arguments;
    arguments.push_back(place);
    return diptych(arguments, path());
  }
  void expect_document(const std::string& text, const std::string& where) const {
    EXPECT_EQ(text.substr(0, GetParam().begin.size()), GetParam().begin) << where;
    EXPECT_EQ(text.back(), '\n') << where;
    if (GetParam().begin == "{") {
      EXPECT_FALSE(Json::parse(text, nullptr, false).is_discarded()) << where;
    }
  }

  TemporaryFolder folder_;
};

TEST_P(OutputPlaces, ALinksTargetIsReplaced) {
  fs::create_directories(path() / "there");
  write_text(path() / "there/real", "old");
  fs::create_symlink("there/real", path() / "link");
  EXPECT_EQ(with("link").exit_code, 0);
  EXPECT_TRUE(fs::is_symlink(path() / "link"));
  expect_document(read_text(path() / "there/real"), "target");
  EXPECT_THAT(unfinished_files(path()), IsEmpty());
}

TEST_P(OutputPlaces, APipeGetsIt) {
  const Outcome outcome =
      in_shell("mkfifo pipe; timeout 60 cat pipe >got & \"$0\" \"$@\" pipe; code=$?; wait; exit $code");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_TRUE(fs::is_fifo(path() / "pipe"));
  expect_document(read_text(path() / "got"), "pipe");
}

TEST_P(OutputPlaces, AProcessOfTheShellGetsIt) {
  const Outcome outcome = in_shell("\"$0\" \"$@\" >(cat >got); code=$?; wait $!; exit $code");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  expect_document(read_text(path() / "got"), "process substitution");
}

TEST_P(OutputPlaces, StandardOutputIsTheDocumentsAlone) {
  // As /dev/stdout is; a test that fails must not replace that one.
  fs::create_symlink("/proc/self/fd/1", path() / "stdout");
  for (const char* place : {"-", "stdout", "/dev/fd/1"}) {
    const Outcome outcome = with(place);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    expect_document(outcome.output, place);
    EXPECT_THAT(outcome.error, Not(IsEmpty())) << "what else is printed";
  }
  EXPECT_TRUE(fs::is_symlink(path() / "stdout"));
  EXPECT_FALSE(fs::exists(path() / "-"));
  const Outcome into_file = in_shell("\"$0\" \"$@\" stdout >all");
  EXPECT_EQ(into_file.exit_code, 0) << into_file.error;
  expect_document(read_text(path() / "all"), "a file");
  const Outcome lost = in_shell("\"$0\" \"$@\" - >/dev/full");
  EXPECT_EQ(lost.exit_code, 1);
  EXPECT_THAT(lost.error, HasSubstr("cannot write to standard output"));
  const Outcome unread = in_shell("set -o pipefail; \"$0\" \"$@\" - | true");
  EXPECT_TRUE(unread.exit_code == 1 || unread.exit_code == 0) << unread.exit_code;  // by who was faster
}

TEST_P(OutputPlaces, ADeviceStaysOne) {
  const std::string null = path() / "null";
  if (mknod(null.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0 || access(null.c_str(), W_OK) != 0) {
    GTEST_SKIP() << "device nodes can't be made here: " << std::strerror(errno);
  }
  const Outcome outcome = with("null");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_TRUE(fs::is_character_file(null));
}

INSTANTIATE_TEST_SUITE_P(
    Verbs, OutputPlaces,
    ::testing::Values(DocumentOption{{"run", "micro/dispatch", "--metric", "exact", "--json"}, "{"},
                      DocumentOption{{"ladder", "micro/dispatch", "--metric", "exact", "--json"}, "{"},
                      DocumentOption{{"compare", "base.json", "base.json", "--json"}, "{"},
                      DocumentOption{{"compare", "base.json", "base.json", "--markdown"}, "#"}),
    [](const auto& instance) { return instance.param.arguments[0] + "_" + instance.param.arguments.back().substr(2); });

TEST(OutputOfTwoDocuments, IsNotOneStream) {
  TemporaryFolder folder;
  write_text(folder.path() / "base.json", counted_run());
  const Outcome outcome =
      refused({"compare", "base.json", "base.json", "--json", "-", "--markdown", "/dev/fd/1"}, folder.path());
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("--json"), HasSubstr("--markdown"), HasSubstr("name a file")));
  EXPECT_EQ(outcome.output, "");
}

TEST(OutputOfACalibration, IsAFile) {
  TemporaryFolder folder;
  EXPECT_THAT(refused({"calibrate", "--out", "-"}, folder.path()).error, HasSubstr("kept in a file"));
  EXPECT_THAT(tree(folder.path()), IsEmpty());
}

// As while another process adds runs: each would write its own over the other's.
TEST(OutputOfACalibration, IsOneProcessesAtATime) {
  TemporaryFolder folder;
  const int descriptor = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(descriptor, LOCK_EX | LOCK_NB), 0);
  for (const char* option : {"--out", "--append"}) {
    EXPECT_THAT(refused({"calibrate", option, "aa.json"}, folder.path()).error,
                HasSubstr("another `diptych calibrate` is adding runs"));
  }
  close(descriptor);
  EXPECT_THAT(tree(folder.path()), IsEmpty());
}

TEST(OutputsInAFolder, FollowLinksAndLeaveDevices) {
  TemporaryFolder folder;
  const fs::path run = folder.path() / "run";
  fs::create_directories(run);
  write_text(run / "run.json", counted_run());
  write_text(folder.path() / "page.html", "old");
  fs::create_symlink("../page.html", run / "report.html");
  const std::string null = run / "summary.md";
  const bool has_device = mknod(null.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0 && access(null.c_str(), W_OK) == 0;
  const Outcome outcome = diptych({"report", "run"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_TRUE(fs::is_symlink(run / "report.html"));
  EXPECT_THAT(read_text(folder.path() / "page.html"), HasSubstr("</html>"));
  EXPECT_EQ(fs::is_character_file(null), has_device);
}

TEST(ClosedStreams, EndWithAnErrorAndNoSignal) {
  TemporaryFolder folder;
  write_text(folder.path() / "base.json", counted_run());
  for (const char* streams : {">&- 2>&-", "<&- >&- 2>&-", ">/dev/full 2>/dev/full", ">&- 2>/dev/full"}) {
    for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{
             {"list"},
             {"--version"},
             {"no-such-verb"},
             {"compare", "base.json", "base.json"},
             {"report", "base.json"},
             {"reproduce", "base.json", "micro/dispatch"},
             {"gate", "--base", "base.json", "--head", "base.json", "--metrics", "exact"}}) {
      const Outcome outcome = shell(fmt::format("exec \"$0\" \"$@\" {}", streams), verb, folder.path());
      EXPECT_EQ(outcome.exit_code, 1) << verb[0] << " " << streams << " signal " << outcome.signal;
    }
  }
  TemporaryFolder other;
  const Outcome run = shell("exec \"$0\" run micro/dispatch --metric exact >&- 2>&-", {}, other.path());
  EXPECT_EQ(run.exit_code, 1) << run.signal;
  EXPECT_THAT(reports::validate(read_json(run_folder(other.path()) / "run.json")), IsEmpty());
}

TEST(ClosedStreams, AreNoPlaceForFiles) {
  TemporaryFolder folder;
  write_text(folder.path() / "base.json", counted_run());
  const Outcome outcome = shell("\"$0\" compare base.json base.json --json j <&- 2>&-", {}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.signal;
  EXPECT_EQ(read_json(folder.path() / "j")["schema"], "diptych.compare/1");
}

TEST(LostMessages, DoNotChangeTheExitCode) {
  TemporaryFolder folder;
  write_text(folder.path() / "a.json",
             R"({"benchmarks": [{"name": "a", "run_type": "iteration", "real_time": 1, "time_unit": "ns"}]})");
  write_text(folder.path() / "b.json",
             R"({"benchmarks": [{"name": "b", "run_type": "iteration", "real_time": 1, "time_unit": "ns"}]})");
  for (const char* streams : {"", "2>/dev/full", "2>&-"}) {
    const Outcome outcome = shell(fmt::format("exec \"$0\" compare a.json b.json {}", streams), {}, folder.path());
    EXPECT_EQ(outcome.exit_code, 3) << streams << outcome.error;
  }
}

TEST(LeftoversOfKilledRuns, GoWithTheNext) {
  TemporaryFolder folder;
  Process ended(Command{{"/bin/true"}});
  ended.finish();
  const std::string of_dead = fmt::format("{}-0.part", ended.pid());
  const fs::path out = folder.path() / "diptych-out";
  const fs::path killed = out / "20250101T000000Z-mlp-digits";
  fs::create_directories(killed / "traces");
  fs::create_directories(killed / "graphs");
  fs::create_directories(out / "mine");
  write_text(killed / fmt::format(".run.json.{}", of_dead), "{");
  write_text(killed / fmt::format("traces/.mlp-digits-eager.json.{}", of_dead), "{");
  write_text(killed / fmt::format("graphs/.mlp-digits.svg.{}", of_dead), "<");
  fs::create_symlink("x", out / fmt::format(".latest.{}", of_dead));
  const std::vector<fs::path> others = {killed / "notes.part", killed / fmt::format(".run.json.{}-0.part", getpid()),
                                        out / fmt::format("mine/.run.json.{}", of_dead)};
  for (const fs::path& other : others) {
    write_text(other, "mine");
  }
  ASSERT_EQ(diptych({"run", "micro/dispatch", "--metric", "exact"}, folder.path()).exit_code, 0);
  for (const fs::path& other : others) {
    EXPECT_EQ(read_text(other), "mine") << other;
    fs::remove(other);
  }
  EXPECT_THAT(unfinished_files(folder.path()), IsEmpty());

  write_text(folder.path() / fmt::format(".copy.json.{}", of_dead), "{");
  write_text(folder.path() / "base.json", counted_run());
  ASSERT_EQ(diptych({"compare", "base.json", "base.json", "--json", "copy.json"}, folder.path()).exit_code, 0);
  EXPECT_THAT(unfinished_files(folder.path()), IsEmpty());
}

}  // namespace
}  // namespace diptych::testing
