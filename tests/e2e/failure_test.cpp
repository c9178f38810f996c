// Disks and files that fail: a clear message, exit code 1, and nothing half-written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/run/schema.h"
#include "tests/e2e/program.h"
#include "tests/e2e/small_disk.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

TEST(OutputFolder, ThatCantBeMadeIsNamedAtOnce) {
  for (const char* out : {"/dev/null/x", "/proc/diptych-out"}) {
    for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{
             {"run", "mlp/digits", "--standard"}, {"graph", "micro/dispatch"}, {"profile", "micro/dispatch"}}) {
      SCOPED_TRACE(std::string(out) + " " + verb[0]);
      TemporaryFolder folder;
      std::vector<std::string> arguments = verb;
      arguments.insert(arguments.end(), {"--out", out});
      const Outcome outcome = diptych(arguments, folder.path());
      EXPECT_EQ(outcome.exit_code, 1);
      EXPECT_EQ(outcome.output, "");
      EXPECT_THAT(outcome.error,
                  AllOf(HasSubstr("can't write to the output folder"), HasSubstr(out), HasSubstr("--out")));
      EXPECT_LT(outcome.cpu_seconds, 2) << "it has measured";
      EXPECT_THAT(tree(folder.path()), IsEmpty());
    }
  }
}

TEST(OutputFolder, AFileInItsPlace) {
  TemporaryFolder folder;
  write_text(folder.path() / "diptych-out", "mine");
  const Outcome outcome = diptych({"run", "micro/dispatch"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, HasSubstr("can't write to the output folder diptych-out"));
  EXPECT_EQ(read_text(folder.path() / "diptych-out"), "mine");
}

TEST(OutputFolder, TwoRunsInOneSecondGetTheirOwn) {
  TemporaryFolder folder;
  for (int i = 0; i < 3; ++i) {
    const Outcome outcome = diptych({"graph", "micro/dispatch", "--stage", "final", "--format", "txt"}, folder.path());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  }
  EXPECT_THAT(run_folders(folder.path()), ::testing::SizeIs(3));
}

// Libraries ask for room as they are loaded, OpenBLAS for 128 MiB a thread, and again until they get it.
TEST(SmallAddressSpace, IsAnErrorAndNoHang) {
  for (const char* gemm : {"tiles", "openblas"}) {
    for (const std::size_t megabytes : {40, 60, 90, 120, 150, 190, 250}) {
      for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
               {"--version"}, {"list"}, {"run", "mlp/simplenet", "--arms", "eager", "--metric", "exact"}}) {
        SCOPED_TRACE(::testing::Message() << gemm << ", " << megabytes << " MB, " << arguments[0]);
        TemporaryFolder folder;
        Command command = diptych_command(arguments, folder.path());
        command.environment["DIPTYCH_GEMM"] = gemm;
        command.memory_limit = megabytes << 20U;
        command.timeout = 60;
        const Outcome outcome = run_command(command);
        EXPECT_FALSE(outcome.timed_out);
        EXPECT_EQ(outcome.signal, 0) << outcome.error;
        EXPECT_TRUE(outcome.exit_code == 0 || !outcome.error.empty()) << outcome.exit_code;
        if (megabytes >= 90 && arguments[0] != "run") {
          EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
        }
      }
    }
  }
}

TEST(FullDisk, NothingFitsAndNothingIsLeft) {
  SmallDisk disk(16384);
  if (!disk.mounted) {
    GTEST_SKIP() << "can't mount a small file system: " << disk.reason;
  }
  const Outcome outcome = diptych({"run", "micro/dispatch"}, disk.folder.path());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, AllOf(StartsWith("diptych: cannot write "), HasSubstr("run.json"),
                                   HasSubstr("No space left on device"), HasSubstr("--out")));
  EXPECT_THAT(unfinished_files(disk.folder.path()), IsEmpty());
  EXPECT_THAT(tree(disk.folder.path()), Not(Contains(HasSubstr("run.json"))));
}

TEST(FullDisk, WhatFittedIsWhole) {
  SmallDisk disk(65536);
  if (!disk.mounted) {
    GTEST_SKIP() << "can't mount a small file system: " << disk.reason;
  }
  const Outcome outcome = diptych({"run", "micro/dispatch"}, disk.folder.path());
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, AllOf(StartsWith("diptych: cannot write "), HasSubstr("No space left on device")));
  EXPECT_THAT(unfinished_files(disk.folder.path()), IsEmpty());
  const Json run = read_json(run_folder(disk.folder.path()) / "run.json");
  EXPECT_THAT(reports::validate(run), IsEmpty());
}

// The limit's signal ends the program in the middle of a write and leaves its temporary file.
TEST(FileSizeLimit, IsAMessageToo) {
  TemporaryFolder folder;
  Command command = diptych_command({"run", "micro/dispatch"}, folder.path());
  command.file_size_limit = 4096;
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.exit_code, 1) << "signal " << outcome.signal;
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("run.json"), HasSubstr("File too large"), HasSubstr("ulimit -f")));
  EXPECT_THAT(unfinished_files(folder.path()), IsEmpty());
}

/// A good run, made once.
const fs::path& good_run() {
  static TemporaryFolder folder;
  static const fs::path path = [] {
    const Outcome outcome = diptych({"run", "micro/dispatch"}, folder.path());
    if (outcome.exit_code != 0) {
      throw std::runtime_error(outcome.error);
    }
    return run_folder(folder.path());
  }();
  return path;
}

void expect_unreadable(const std::string& name, const fs::path& folder, const std::vector<std::string>& said) {
  SCOPED_TRACE(name);
  const std::vector<std::string> before = tree(folder);
  const Outcome outcome = diptych({"report", name}, folder);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.output, "");
  EXPECT_THAT(outcome.error, StartsWith("diptych: "));
  for (const std::string& part : said) {
    EXPECT_THAT(outcome.error, HasSubstr(part));
  }
  EXPECT_EQ(tree(folder), before);
}

TEST(Report, OfWhatIsNoRun) {
  TemporaryFolder folder;
  const fs::path& path = folder.path();
  const std::string good = read_text(good_run() / "run.json");
  write_text(path / "cut.json", good.substr(0, good.size() / 2));
  write_text(path / "empty.json", "");
  write_text(path / "text.json", "hello");
  write_text(path / "foreign.json", R"({"benchmarks": []})");
  write_text(path / "array.json", "[1, 2]");
  Json run = Json::parse(good);
  run["schema"] = "diptych.run/99";
  write_text(path / "future.json", run.dump());
  run["schema"] = "diptych.run/1";
  run["cells"][0].erase("validity");
  write_text(path / "holes.json", run.dump());
  fs::create_directory(path / "folder");

  expect_unreadable("cut.json", path, {"cut.json", "ends in the middle"});
  expect_unreadable("empty.json", path, {"empty.json", "is empty"});
  expect_unreadable("text.json", path, {"text.json", "is not JSON"});
  expect_unreadable("foreign.json", path, {"foreign.json", "not a run of Diptych"});
  expect_unreadable("array.json", path, {"array.json", "not a run of Diptych"});
  expect_unreadable("future.json", path, {"future.json", "diptych.run/99", "diptych.run/1"});
  expect_unreadable("holes.json", path, {"holes.json", "schema", "/cells/0", "validity"});
  expect_unreadable("missing.json", path, {"missing.json", "no such file"});
  expect_unreadable("folder", path, {"no run.json in 'folder'", "diptych run --quick"});
  expect_unreadable("/dev/null/run.json", path, {"/dev/null/run.json"});
}

// Of several files, the user has to see which one is meant.
TEST(Messages, NameTheFileThatTheyAreAbout) {
  TemporaryFolder folder;
  const fs::path& path = folder.path();
  const auto benchmarks = [](const std::string& list) { return "{\"benchmarks\": " + list + "}"; };
  Json run = read_json(good_run() / "run.json");
  write_text(path / "good.json", run.dump());
  run.erase("plan");
  run["status"] = "partial";
  write_text(path / "planless.json", run.dump());
  write_text(path / "unit.json", benchmarks(R"([{"name": "a", "real_time": 1, "time_unit": "h"}])"));
  write_text(path / "zero.json", benchmarks(R"([{"name": "a", "real_time": 0, "time_unit": "s"}])"));
  write_text(path / "nameless.json", benchmarks(R"([{"real_time": 1, "time_unit": "s"}])"));
  write_text(path / "listless.json", benchmarks("1"));
  write_text(path / "other.json", R"({"schema": "other/1"})");
  write_text(path / "half.json", R"({"schema": "diptych.aa/1"})");
  write_text(path / "wrong.txt", "graph");
  write_text(path / "wrong.toml", "[gate");
  for (const auto& [arguments, file] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"compare", "good.json", "unit.json"}, "unit.json"},
           {{"compare", "zero.json", "good.json"}, "zero.json"},
           {{"compare", "nameless.json", "good.json"}, "nameless.json"},
           {{"compare", "good.json", "listless.json"}, "listless.json"},
           {{"compare", "good.json", "other.json"}, "other.json"},
           {{"report", "good.json", "unit.json"}, "unit.json"},
           {{"gate", "--base", "unit.json", "--head", "good.json"}, "unit.json"},
           {{"gate", "--base", "good.json", "--head", "zero.json"}, "zero.json"},
           {{"gate", "--base", "good.json", "--head", "good.json", "--calibration", "other.json"}, "other.json"},
           {{"gate", "--base", "good.json", "--head", "good.json", "--calibration", "half.json"}, "half.json"},
           {{"gate", "--base", "good.json", "--head", "good.json", "--config", "wrong.toml"}, "wrong.toml"},
           {{"calibrate", "--append", "other.json"}, "other.json"},
           {{"calibrate", "--append", "half.json"}, "half.json"},
           {{"reproduce", "planless.json", "micro/dispatch"}, "planless.json"},
           {{"reproduce", "good.json", "micro/none"}, "good.json"},
           {{"reproduce", "good.json", "micro/dispatch", "--arm", "ort"}, "good.json"},
           {{"run", "--resume", "planless.json"}, "planless.json"},
           {{"graph", "wrong.txt"}, "wrong.txt"},
           {{"onnx", "check", "@nowhere"}, "nowhere"}}) {
    EXPECT_THAT(refused(arguments, path).error, HasSubstr(file)) << ::testing::PrintToString(arguments);
  }
}

TEST(Report, GivesTheSameViewsAgain) {
  TemporaryFolder folder;
  const fs::path copy = folder.path() / "copy";
  fs::create_directory(copy);
  fs::copy(good_run() / "run.json", copy / "run.json");
  const Outcome by_folder = diptych({"report", "copy"}, folder.path());
  ASSERT_EQ(by_folder.exit_code, 0) << by_folder.error;
  EXPECT_THAT(by_folder.output, AllOf(HasSubstr("micro/dispatch"), HasSubstr("copy/report.html")));
  EXPECT_EQ(read_text(copy / "summary.md"), read_text(good_run() / "summary.md"));
  const std::string page = read_text(copy / "report.html");
  EXPECT_EQ(read_text(copy / "run.json"), read_text(good_run() / "run.json"));

  const Outcome by_file = diptych({"report", "run.json"}, copy);
  ASSERT_EQ(by_file.exit_code, 0) << by_file.error;
  EXPECT_EQ(read_text(copy / "report.html"), page);
  EXPECT_THAT(unfinished_files(folder.path()), IsEmpty());
}

// The pictures of the graphs are in graphs/, but don't come back into the page.
TEST(Report, OfTwoRunsIsOnePageBesideTheSecond) {
  TemporaryFolder folder;
  fs::copy(good_run(), folder.path() / "a", fs::copy_options::recursive);
  fs::copy(good_run(), folder.path() / "b", fs::copy_options::recursive);
  const Outcome compared = diptych({"compare", "a", "b"}, folder.path());
  const Outcome page = diptych({"report", "a", "b"}, folder.path());
  EXPECT_EQ(page.exit_code, 0) << page.error;
  EXPECT_EQ(page.output, compared.output + "b/compare.html\n");
  EXPECT_THAT(read_text(folder.path() / "b" / "compare.html"),
              AllOf(HasSubstr("What to do next"), HasSubstr("micro/dispatch"), HasSubstr("default-src 'none'")));
  EXPECT_EQ(diptych({"report", "a", "b/run.json", "--out", "pages"}, folder.path()).exit_code, 0);
  EXPECT_THAT(tree(folder.path()), Contains("pages/compare.html"));
}

TEST(Report, KeepsThePictures) {
  TemporaryFolder folder;
  const fs::path copy = folder.path() / "copy";
  fs::copy(good_run(), copy, fs::copy_options::recursive);
  ASSERT_EQ(diptych({"report", "copy"}, folder.path()).exit_code, 0);
  EXPECT_TRUE(read_text(copy / "report.html") == read_text(good_run() / "report.html"));
}

TEST(Report, IntoAFullDisk) {
  SmallDisk disk(262144);
  if (!disk.mounted) {
    GTEST_SKIP() << "can't mount a small file system: " << disk.reason;
  }
  const fs::path& path = disk.folder.path();
  fs::copy(good_run() / "run.json", path / "run.json");
  write_text(path / "report.html", "the older page");
  std::error_code ignored;
  write_text(path / "ballast", std::string(fs::space(path, ignored).available - 8192, 'x'));
  const Outcome outcome = diptych({"report", "run.json"}, path);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("cannot write"), HasSubstr("No space left on device")));
  EXPECT_EQ(read_text(path / "report.html"), "the older page");
  EXPECT_THAT(unfinished_files(path), IsEmpty());
}

}  // namespace
}  // namespace diptych::testing
