// The release build: no folders in the program, a build record that follows git, and scripts/reproduce.

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/program.h"
#include "tests/support/places.h"

namespace diptych::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::MatchesRegex;
using ::testing::Not;
namespace fs = std::filesystem;

TEST(ReleaseBuild, TheProgramNamesNoFolderOfItsBuild) {
  const std::string program = read_text(places::program());
  ASSERT_THAT(program.substr(0, 4),
              "\x7f"
              "ELF");
  for (const std::string& folder : {places::source(), places::build()}) {
    const std::size_t at = program.find(folder);
    EXPECT_EQ(at, std::string::npos) << "two builds in different folders differ: "
                                     << program.substr(at, program.find('\0', at) - at);
  }
}

json build_of(const fs::path& folder) {
  return json::parse(diptych({"doctor", "--json"}, folder).output)["fingerprint"]["build"];
}

TEST(ReleaseBuild, TheFingerprintNamesRevisionAndPackages) {
  const TemporaryFolder folder;
  const json build = build_of(folder.path());
  if (build["git_sha"].is_null()) {
    EXPECT_THAT(build["reasons"]["git_sha"].get<std::string>(), HasSubstr("built")) << "built, or not built, from what";
  } else {
    EXPECT_THAT(build["git_sha"].get<std::string>(), MatchesRegex("[0-9a-f]{40,64}"));
    EXPECT_TRUE(build["git_dirty"].is_boolean());
  }
  EXPECT_THAT(build["flags"].get<std::string>(), AllOf(HasSubstr("-O"), HasSubstr("-ffp-contract=off")));
  EXPECT_NE(build["sha256"], build["code_sha256"]);
  if (fs::exists("/var/lib/dpkg/status")) {
    std::map<std::string, std::string> use;
    for (const json& package : build["packages"]) {
      use[package["name"]] = package["use"];
    }
    EXPECT_THAT(use, IsSupersetOf({std::pair<const std::string, std::string>{"libc6", "linked"},
                                   {"libfmt9", "linked"},
                                   {"nlohmann-json3-dev", "compiled-in"},
                                   {"libvalijson-dev", "compiled-in"}}));
  }
}

// The first line of sha256sum is the independent witness.
TEST(ReleaseBuild, TheHashIsThatOfTheFile) {
  const TemporaryFolder folder;
  const Outcome sum = run_command({{"/usr/bin/env", "sha256sum", places::program()}});
  EXPECT_EQ(build_of(folder.path())["sha256"], sum.output.substr(0, 64));
}

bool has(const std::string& program) { return std::system(("command -v " + program + " >/dev/null").c_str()) == 0; }

/// A git repository, and the record that a build in it gets.
class Record : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has("git")) {
      GTEST_SKIP() << "git is not installed";
    }
    fs::create_directories(source_ / "framework");
    fs::create_directories(source_ / "docs");
    write_text(source_ / "framework/a.cpp", "1");
    write_text(source_ / "docs/a.md", "1");
  }
  std::string git(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"/usr/bin/env", "git", "-C", source_.string(), "-c", "user.name=a", "-c",
                                         "user.email=a@example.org"});
    const Outcome outcome = run_command({arguments});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    return outcome.output.substr(0, outcome.output.find('\n'));
  }
  void commit() {
    git({"add", "-A"});
    git({"commit", "-q", "-m", "a"});
  }
  std::string record() {
    const Outcome outcome =
        run_command({{"/usr/bin/env", "cmake", "-DSOURCE=" + source_.string(), "-DOUTPUT=" + output_.string(), "-P",
                      places::source() + "/cmake/BuildRecord.cmake"}});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    return read_text(output_);
  }
  TemporaryFolder folder_;
  fs::path source_ = folder_.path() / "source";
  fs::path output_ = folder_.path() / "record.cpp";
};

TEST_F(Record, FollowsTheRepository) {
  EXPECT_THAT(record(), AllOf(HasSubstr("git_reason=not built from a git checkout"), Not(HasSubstr("git_sha"))));
  git({"init", "-q"});
  EXPECT_THAT(record(), HasSubstr("git_reason=built from a git repository without commits"));
  commit();
  const std::string first = git({"rev-parse", "HEAD"});
  EXPECT_THAT(record(), AllOf(HasSubstr("git_sha=" + first + "\n"), HasSubstr("git_dirty=false\n")));
  write_text(source_ / "docs/a.md", "2");
  EXPECT_THAT(record(), HasSubstr("git_dirty=false\n")) << "documents are not built into the program";
  write_text(source_ / "framework/a.cpp", "2");
  EXPECT_THAT(record(), HasSubstr("git_dirty=true\n"));
  commit();
  EXPECT_THAT(record(), AllOf(HasSubstr(git({"rev-parse", "HEAD"})), HasSubstr("git_dirty=false\n")));
  write_text(source_ / "framework/new.cpp", "1");
  EXPECT_THAT(record(), HasSubstr("git_dirty=true\n")) << "CMake takes every file that is there";
}

TEST_F(Record, IsNotThatOfARepositoryAround) {
  git({"init", "-q"});
  commit();
  source_ /= "framework";
  EXPECT_THAT(record(), HasSubstr("git_reason=built from a folder inside of another git repository"));
}

TEST_F(Record, IsWrittenOnlyWhenItChanges) {
  git({"init", "-q"});
  commit();
  record();
  const fs::file_time_type long_ago = fs::last_write_time(output_) - std::chrono::hours(1);
  fs::last_write_time(output_, long_ago);
  record();
  EXPECT_EQ(fs::last_write_time(output_), long_ago) << "or every build would link again";
  write_text(source_ / "framework/a.cpp", "2");
  record();
  EXPECT_NE(fs::last_write_time(output_), long_ago);
}

/// scripts/reproduce on a file in a folder of its own.
class Script : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has("python3") || !has("git")) {
      GTEST_SKIP() << "python3 or git is not installed";
    }
  }
  Outcome reproduce(const std::string& text, const std::vector<std::string>& more = {}) {
    write_text(folder_.path() / "run.json", text);
    Command command{{places::source() + "/scripts/reproduce", "run.json"}, folder_.path().string()};
    command.arguments.insert(command.arguments.end(), more.begin(), more.end());
    return run_command(command);
  }
  void expect_refused(const std::string& text, const std::string& said, const std::vector<std::string>& more = {}) {
    const Outcome outcome = reproduce(text, more);
    EXPECT_EQ(outcome.exit_code, 1) << text;
    EXPECT_EQ(outcome.output, "");
    EXPECT_THAT(outcome.error, AllOf(HasSubstr("reproduce: "), HasSubstr(said), Not(HasSubstr("Traceback"))));
    EXPECT_FALSE(has_control_characters(outcome.error)) << outcome.error;
  }
  static json run(const json& build) {
    return {
        {"schema", "diptych.run/1"}, {"environment", {{"build", build}}}, {"cells", {{{"workload", "mlp/digits"}}}}};
  }
  TemporaryFolder folder_;
};

TEST_F(Script, RefusesWhatIsNoRun) {
  expect_refused("", "is not JSON");
  expect_refused(R"({"schema": "diptych.run/1", "cells": [)", "is not JSON");
  expect_refused(std::string(100'000, '['), "is not JSON");
  expect_refused("\xff\xfe", "is not JSON");
  expect_refused("[]", "is no run of Diptych");
  expect_refused(R"({"context": {}, "benchmarks": []})", "is no run of Diptych");
  expect_refused("{\"schema\": \"\x1b[31mred\"}", "is not JSON");
  expect_refused(R"({"schema": "\u001b[31mred"})", "\\x1b[31mred");
  expect_refused(R"({"schema": "diptych.run/2"})", "this script reads diptych.run/1");
  expect_refused(R"({"schema": "diptych.run/1"})", "has no environment");
  const Outcome missing =
      run_command({{places::source() + "/scripts/reproduce", "nowhere.json"}, folder_.path().string()});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.error, HasSubstr("nowhere.json: No such file"));
}

TEST_F(Script, RefusesWhatCannotBeBuilt) {
  const std::string unknown(40, 'd');
  expect_refused(run(nullptr).dump(), "names no revision");
  expect_refused(run({{"git_sha", nullptr}, {"reasons", {{"git_sha", "from an archive"}}}}).dump(), "from an archive");
  expect_refused(run({{"git_sha", "--upload-pack=x"}, {"git_dirty", false}}).dump(), "is no git revision");
  expect_refused(run({{"git_sha", "\x1b[31m"}, {"git_dirty", false}}).dump(), "is no git revision");
  expect_refused(run({{"git_sha", 7}, {"git_dirty", false}}).dump(), "is no git revision");
  expect_refused(run({{"git_sha", unknown}, {"git_dirty", true}}).dump(), "--without-changes");
  expect_refused(run({{"git_sha", unknown}, {"git_dirty", nullptr}}).dump(), "--without-changes");
  expect_refused(run({{"git_sha", unknown}, {"git_dirty", false}}).dump(), "git");  // a checkout without it, or none
  expect_refused(run(nullptr).dump(), "git", {"--revision=--no-such-option"});
  expect_refused(run(nullptr).dump(), "--no-such-option", {"--no-such-option"});
  expect_refused(run(nullptr).dump(), "has no cell 'mlp/digts'; it has mlp/digits", {"mlp/digts"});
}

TEST_F(Script, ListsWhatDiffers) {
  json environment = json::parse(diptych({"doctor", "--json"}, folder_.path()).output)["fingerprint"];
  const auto compared = [&] {
    json document = run(nullptr);
    document["environment"] = environment;
    return reproduce(document.dump(), {"--program", places::program()});
  };
  Outcome outcome = compared();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("byte for byte"), HasSubstr("differs    nothing")));

  environment["os"]["kernel"] = "5.0 \x1b[31m";
  environment["cpu"]["microcode"] = nullptr;
  environment["build"]["packages"] = json::array({{{"name", "libc6"}, {"version", "2.0"}, {"use", "linked"}}, 3});
  outcome = compared();
  EXPECT_EQ(outcome.exit_code, 0) << "the program is the same";
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("os.kernel"), HasSubstr("5.0 \\x1b[31m"), HasSubstr("snapshot.debian.org")));
  if (fs::exists("/var/lib/dpkg/status")) {
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("package libc6 "), HasSubstr("package libfmt9"), HasSubstr("absent")));
  }
  EXPECT_FALSE(has_control_characters(outcome.output));

  environment["build"]["sha256"] = std::string(64, '0');
  outcome = compared();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("only the revision that is named in it differs"));
  environment["build"]["code_sha256"] = std::string(64, '1');
  outcome = compared();
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("hash       differs: recorded 0000"));
  environment = {{"build", nullptr}, {"cpu", 3}, {"os", {{"kernel", json::array()}}}};
  outcome = compared();
  EXPECT_EQ(outcome.exit_code, 2) << outcome.error;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("differs: recorded nothing"), HasSubstr("unknown    not recorded")));
}

}  // namespace
}  // namespace diptych::testing
