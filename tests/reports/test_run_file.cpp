#include <fstream>
#include <functional>
#include <iterator>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "framework/core/temporary_folder.h"
#include "reports/analysis/analyse.h"
#include "reports/run/run_file.h"
#include "reports/run/schema.h"
#include "tests/reports/sample_run.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::sample_run;
using Json = nlohmann::json;
namespace fs = std::filesystem;

class RunFile : public ::testing::Test {
 protected:
  void TearDown() override { ::chmod(folder_.c_str(), 0700); }

  fs::path put(const std::string& content) {
    const fs::path path = folder_ / "run.json";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  static std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static std::string failure(const fs::path& path) {
    try {
      load_run(path);
    } catch (const FileError& error) {
      return error.what();
    }
    return "loaded";
  }

  const TemporaryFolder temporary_{"diptych-run-file"};
  const fs::path folder_ = temporary_.path();
};

Json valid_run() {
  Json run = sample_run();
  analyse(run);
  return run;
}

TEST_F(RunFile, ComesBackAsItWasWritten) {
  const Json run = valid_run();
  write_atomically(folder_ / "run.json", to_text(run));
  EXPECT_EQ(load_run(folder_ / "run.json"), run);
}

TEST_F(RunFile, MissingFolderOrEmpty) {
  EXPECT_THAT(failure(folder_ / "none.json"),
              AllOf(HasSubstr("none.json"), HasSubstr("no such file"), HasSubstr("diptych run")));
  EXPECT_THAT(failure(folder_), HasSubstr("is a folder"));
  EXPECT_THAT(failure(put(" \n")), HasSubstr("is empty"));
}

TEST_F(RunFile, TruncatedAnywhereIsRefusedAndNamed) {
  const std::string text = to_text(valid_run());
  for (const std::size_t length : {std::size_t{1}, std::size_t{10}, text.size() / 2, text.size() - 3}) {
    EXPECT_THAT(failure(put(text.substr(0, length))), HasSubstr("cut off")) << length;
  }
}

TEST_F(RunFile, NotJson) { EXPECT_THAT(failure(put("<html>")), HasSubstr("is not JSON")); }

TEST_F(RunFile, ForeignJson) {
  EXPECT_THAT(failure(put("[1, 2]")), HasSubstr("not a run of Diptych"));
  EXPECT_THAT(failure(put(R"({"benchmarks": []})")), HasSubstr("no \"schema\""));
  EXPECT_THAT(failure(put(R"({"schema": "other/3"})")), HasSubstr("other/3"));
}

TEST_F(RunFile, AnotherVersionNamesBoth) {
  Json run = valid_run();
  run["schema"] = "diptych.run/2";
  EXPECT_THAT(failure(put(to_text(run))), AllOf(HasSubstr("diptych.run/2"), HasSubstr("diptych.run/1")));
}

TEST_F(RunFile, ProblemsNameTheirPlace) {
  Json run = valid_run();
  run["cells"][0]["arms"][1].erase("seconds");
  EXPECT_THAT(failure(put(to_text(run))), AllOf(HasSubstr("/cells/0/arms/1"), HasSubstr("seconds")));
}

TEST_F(RunFile, TimesThatNoClockMeasuresAreRefusedByTheirField) {
  const Json run = valid_run();
  const auto refusal = [&](const std::string& field, const Json& value) {
    Json changed = run;
    changed[Json::json_pointer(field)] = value;
    return failure(put(to_text(changed)));
  };
  const std::string round = "/cells/0/processes/0/rounds/0/seconds/eager";
  for (const double seconds : {5e-324, 1e-320, 1e-16, 1e10, 1.7e308}) {
    EXPECT_THAT(refusal(round, seconds), AllOf(HasSubstr(round + " is "), HasSubstr("no clock measures"))) << seconds;
  }
  for (const double seconds : {1e-15, 1e-9, 1.0, 1e9}) {
    EXPECT_EQ(refusal(round, seconds), "loaded") << seconds;
  }
  for (const char* field :
       {"/cells/0/arms/1/seconds/estimate", "/cells/0/arms/1/seconds/high", "/cells/0/arms/0/first_call_seconds",
        "/cells/0/arms/1/worst_call_seconds", "/cells/0/processes/1/arms/2/first_call_seconds"}) {
    for (const double seconds : {5e-324, 1.7e308, -1.0}) {
      EXPECT_THAT(refusal(field, seconds), HasSubstr(std::string(field) + " is ")) << seconds;
    }
    EXPECT_EQ(refusal(field, 2e-6), "loaded");
  }
  // Differences lose digits, and may be losses.
  for (const char* field : {"/cells/0/ladder/rungs/0/saved_seconds/estimate", "/cells/0/ladder/residual_seconds/low",
                            "/cells/0/processes/0/arms/1/compile_seconds"}) {
    for (const double seconds : {0.0, -1e-3, 3e-21, -3e-21}) {
      EXPECT_EQ(refusal(field, seconds), "loaded") << seconds;
    }
    for (const double seconds : {5e-324, -1e300}) {
      EXPECT_THAT(refusal(field, seconds), HasSubstr(std::string(field) + " is ")) << seconds;
    }
  }
}

TEST_F(RunFile, ValuesThatNestTooDeepAreRefused) {
  Json run = valid_run();
  run["environment"]["deep"] = "here";
  const std::string text = to_text(run);
  const auto with = [&](std::size_t levels) {
    std::string deep = text;
    return failure(put(deep.replace(deep.find("\"here\""), 6, std::string(levels, '[') + std::string(levels, ']'))));
  };
  EXPECT_EQ(with(98), "loaded");
  EXPECT_THAT(with(99), AllOf(HasSubstr("run.json"), HasSubstr("deeper than 100 levels, at byte")));
  EXPECT_THAT(with(20'000), HasSubstr("deeper than 100 levels"));
}

TEST(Schema, IsStrict) {
  const Json run = valid_run();
  const auto problems = [&](const std::function<void(Json&)>& change) {
    Json changed = run;
    change(changed);
    return validate(changed);
  };
  EXPECT_THAT(validate(run), IsEmpty());
  EXPECT_THAT(problems([](Json& r) { r["environment"]["anything"] = {1, "two"}; }), IsEmpty());
  EXPECT_THAT(problems([](Json& r) { r["seed"] = 18446744073709551615u; }), IsEmpty());
  EXPECT_THAT(problems([](Json& r) { r["cells"][0]["arms"][0]["exact"]["nodes"] = nullptr; }), IsEmpty());
  EXPECT_THAT(problems([](Json& r) { r.erase("seed"); }), Not(IsEmpty()));
  EXPECT_THAT(problems([](Json& r) { r["extra"] = 1; }), Not(IsEmpty()));
  EXPECT_THAT(problems([](Json& r) { r["numerics"] = "sloppy"; }), Not(IsEmpty()));
  EXPECT_THAT(problems([](Json& r) { r["threads"] = "1"; }), Not(IsEmpty()));
  EXPECT_THAT(problems([](Json& r) { r["cells"][0]["comparisons"][0]["verdict"]["verdict"] = "GREAT"; }),
              Not(IsEmpty()));
  EXPECT_THAT(problems([](Json& r) { r["cells"][0]["arms"][0]["seconds"].erase("low"); }), Not(IsEmpty()));
  EXPECT_THAT(problems([](Json& r) { r["cells"][0]["processes"][0]["rounds"][0]["seconds"]["eager"] = 0; }),
              Not(IsEmpty()));
}

TEST_F(RunFile, WritingReplacesTheOldFileAndLeavesNothingElse) {
  const fs::path path = put("old");
  write_atomically(path, "new");
  EXPECT_EQ(read(path), "new");
  EXPECT_EQ(files(), 1u);
  write_atomically(path, "");
  EXPECT_EQ(read(path), "");
}

TEST_F(RunFile, WritingIntoNowhereSaysSo) {
  try {
    write_atomically(folder_ / "none" / "run.json", "x");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("none/run.json"), HasSubstr("create the folder")));
  }
}

// Runs in a child so that its limits and its user are its own; returns the message of the FileError.
std::string message_in_child(const std::function<void()>& restrict_process, const std::function<void()>& act) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::string message = "no error";
    restrict_process();
    try {
      act();
    } catch (const FileError& error) {
      message = error.what();
    }
    const ssize_t n = ::write(ends[1], message.data(), message.size());
    ::_exit(n < 0 ? 1 : 0);
  }
  ::close(ends[1]);
  std::string message(4096, '\0');
  const ssize_t n = ::read(ends[0], message.data(), message.size());
  message.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  ::close(ends[0]);
  ::waitpid(pid, nullptr, 0);
  return message;
}

TEST_F(RunFile, AFullDiskKeepsTheOldFile) {
  const fs::path path = put("old");
  const std::string message = message_in_child(
      [] {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{64 * 1024, 64 * 1024};
        ::setrlimit(RLIMIT_FSIZE, &limit);
      },
      [&] { write_atomically(path, std::string(1 << 20, 'x')); });
  EXPECT_THAT(message, AllOf(HasSubstr("run.json"), HasSubstr("File too large"), HasSubstr("nothing was changed")));
  EXPECT_EQ(read(path), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(RunFile, AnUnwritableFolderSaysSo) {
  ASSERT_EQ(::chmod(folder_.c_str(), 0555), 0);
  const std::string message = message_in_child(
      [] {
        // Root may write anywhere.
        if (::getuid() == 0 && ::setuid(65534) != 0) {
          ::_exit(2);
        }
      },
      [&] { write_atomically(folder_ / "run.json", "x"); });
  if (message.empty()) {
    GTEST_SKIP() << "this root can't become another user, as in a container that has no other";
  }
  EXPECT_THAT(message, AllOf(HasSubstr("Permission denied"), HasSubstr("--out")));
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace diptych::reports
