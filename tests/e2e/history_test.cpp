// `diptych report DIR`: a page over a folder of runs, whatever else lies in the folder.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/program.h"
#include "tests/reports/well_formed.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

/// A run of this machine, measured once.
const Json& recorded_run() {
  static const Json run = [] {
    TemporaryFolder folder;
    return run_json({"micro/dispatch", "--arms", "eager,graph"}, folder.path());
  }();
  return run;
}

/// The recorded run as that of another day, every time `factor` as long.
void write_run(const fs::path& folder, int day, double factor = 1) {
  Json run = recorded_run();
  run["created"] = "2026-11-0" + std::to_string(day) + "T08:00:00Z";
  for (Json& process : run["cells"][0]["processes"]) {
    for (Json& round : process["rounds"]) {
      for (Json& seconds : round["seconds"]) {
        seconds = seconds.get<double>() * factor;
      }
    }
  }
  fs::create_directories(folder);
  write_text(folder / "run.json", run.dump());
}

/// A folder as people have them: runs on two levels, links, copies, and files that are no runs.
fs::path mixed_folder(const TemporaryFolder& folder) {
  fs::path runs = folder.path() / "runs";
  write_run(runs / "second & last", 2);
  write_run(runs / "first", 1);
  write_run(runs / "machine" / "third", 3);
  write_run(runs / "too" / "deep" / "fourth", 4);
  write_text(runs / "second & last" / "report.html", "a report");
  fs::create_directory_symlink("first", runs / "latest");
  fs::create_directory_symlink(".", runs / "loop");
  for (const char* name : {"zcopy", "half", "foreign", ".hidden"}) {
    fs::create_directory(runs / name);
  }
  fs::copy(runs / "first" / "run.json", runs / "zcopy" / "run.json");
  const std::string whole = read_text(runs / "first" / "run.json");
  write_text(runs / "half" / "run.json", whole.substr(0, whole.size() / 2));
  write_text(runs / "foreign" / "run.json", R"({"benchmarks": []})");
  write_text(runs / ".hidden" / "run.json", whole);
  return runs;
}

TEST(ReportOfAFolder, IsOnePageOverAllItsRuns) {
  TemporaryFolder folder;
  const fs::path runs = mixed_folder(folder);
  const Outcome outcome = diptych({"report", "runs"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("3 runs from 2026-11-01 to 2026-11-03 on one machine: of 2 cells"),
                    HasSubstr("zcopy/run.json: the same file as first/run.json"),
                    HasSubstr("half/run.json: ends in the middle"), HasSubstr("foreign/run.json"),
                    HasSubstr("up to 2 levels below runs; 3 files left out"), HasSubstr("runs/index.html\n")));
  const std::string page = read_text(runs / "index.html");
  EXPECT_EQ(reports::testing::markup_problem(page), "");
  EXPECT_THAT(page, AllOf(HasSubstr("href=\"second%20%26%20last/report.html\""), HasSubstr("machine/third"),
                          Not(HasSubstr("fourth")), Not(HasSubstr("href=\"first/report.html")),
                          HasSubstr("default-src 'none'"), Not(HasSubstr("http://")), Not(HasSubstr("https://"))));
  EXPECT_THAT(unfinished_files(folder.path()), IsEmpty());
  ASSERT_EQ(diptych({"report", "runs"}, folder.path()).exit_code, 0) << "over the page that is there";
  EXPECT_TRUE(read_text(runs / "index.html") == page);
}

/// Files that look like runs, and the words that each is refused with.
std::map<std::string, std::vector<std::string>> hostile_runs(const fs::path& runs) {
  const auto put = [&](const std::string& name, const std::string& text) {
    fs::create_directories(runs / name);
    write_text(runs / name / "run.json", text);
  };
  const auto changed = [&](const std::function<void(Json&)>& change) {
    Json run = recorded_run();
    change(run);
    return run.dump();
  };
  std::string deep = changed([](Json& run) { run["environment"]["engine"] = "levels"; });
  std::string levels;
  for (const char* bracket : {"[", "]"}) {
    for (int i = 0; i < 20'000; ++i) {
      levels += bracket;
    }
  }
  deep.replace(deep.find("\"levels\""), 8, levels);
  put("deep", deep);
  const auto first_round = [](Json& run) -> Json& {
    return run["cells"][0]["processes"][0]["rounds"][0]["seconds"]["eager"];
  };
  put("tiny", changed([&](Json& run) { first_round(run) = 5e-324; }));
  put("huge", changed([&](Json& run) { first_round(run) = 1.7e308; }));
  put("negative", changed([](Json& run) { run["cells"][0]["arms"][0]["first_call_seconds"] = -1; }));
  return {{"deep", {"nest deeper than 100 levels"}},
          {"tiny", {"/cells/0/processes/0/rounds/0/seconds/eager", "no clock"}},
          {"huge", {"/cells/0/processes/0/rounds/0/seconds/eager", "no clock"}},
          {"negative", {"/cells/0/arms/0/first_call_seconds is -1", "no clock"}}};
}

TEST(ReportOfAFolder, AHostileFileIsListedAndKillsNothing) {
  TemporaryFolder folder;
  write_run(folder.path() / "first", 1);
  write_run(folder.path() / "second", 2);
  const auto hostile = hostile_runs(folder.path());
  const Outcome outcome = diptych({"report", "."}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, HasSubstr("4 files left out"));
  for (const auto& [name, words] : hostile) {
    const Outcome alone = diptych({"report", name}, folder.path());
    const Outcome compared = diptych({"compare", "first", name}, folder.path());
    const Outcome gated =
        diptych({"gate", "--base", "first/run.json", "--head", name + "/run.json", "--out", "gated"}, folder.path());
    for (const Outcome& refused : {alone, compared, gated}) {
      EXPECT_EQ(refused.exit_code, 1) << refused.error;
      EXPECT_THAT(refused.error, HasSubstr(name + "/run.json"));
    }
    for (const std::string& word : words) {
      EXPECT_THAT(outcome.output, HasSubstr(word));
      EXPECT_THAT(alone.error, HasSubstr(word));
    }
  }
}

TEST(ReportOfAFolder, GoesElsewhereAndAsJson) {
  TemporaryFolder folder;
  mixed_folder(folder);
  const Outcome page = diptych({"report", "runs", "--out", "pages/of runs"}, folder.path());
  ASSERT_EQ(page.exit_code, 0) << page.error;
  EXPECT_THAT(read_text(folder.path() / "pages" / "of runs" / "index.html"),
              HasSubstr("href=\"../../runs/second%20%26%20last/report.html\""));
  ASSERT_EQ(diptych({"report", "runs", "--format", "json", "--out", "."}, folder.path()).exit_code, 0);
  const Json document = read_json(folder.path() / "history.json");
  EXPECT_EQ(document["schema"], "diptych.history/1");
  EXPECT_THAT(document["runs"], SizeIs(3));
  EXPECT_EQ(document["runs"][0]["folder"], "first");
  EXPECT_EQ(document["runs"][0]["revision"], recorded_run()["environment"]["build"]["git_sha"]);
  EXPECT_THAT(document["series"], SizeIs(2));
  EXPECT_THAT(document["left_out"], SizeIs(3));
  EXPECT_THAT(tree(folder.path()), Not(Contains("runs/index.html")));
}

TEST(ReportOfAFolder, ComparesEachRunWithTheOneBefore) {
  TemporaryFolder folder;
  for (int day = 1; day <= 8; ++day) {
    write_run(folder.path() / ("r" + std::to_string(day)), day, day < 5 ? 1 : 1.2);
  }
  const Outcome outcome = diptych({"report", ".", "--format", "json"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const Json document = read_json(folder.path() / "history.json");
  for (const Json& series : document["series"]) {
    ASSERT_THAT(series["points"], SizeIs(8));
    if (series["points"][4]["state"] == "usable") {  // a noisy machine makes the recorded run CONTAMINATED
      EXPECT_NEAR(series["points"][4]["ratio"]["estimate"].get<double>(), 1.2, 1e-6);
      EXPECT_EQ(series["points"][4]["base"], 3);
    }
  }
}

TEST(ReportOfAFolder, WithARunOfItsOwnIsThatRun) {
  TemporaryFolder folder;
  write_run(folder.path() / "run", 1);
  write_run(folder.path() / "run" / "inner", 2);
  const Outcome outcome = diptych({"report", "run"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(tree(folder.path()), AllOf(Contains("run/report.html"), Not(Contains("run/index.html"))));
}

TEST(ReportOfAFolder, WithoutARunSaysWhatToDo) {
  TemporaryFolder folder;
  fs::create_directories(folder.path() / "empty" / "inside");
  const Outcome empty = refused({"report", "empty"}, folder.path());
  EXPECT_THAT(empty.error, AllOf(HasSubstr("no run.json in 'empty'"), HasSubstr("diptych run --quick --out empty")));
  fs::create_directories(folder.path() / "broken" / "one");
  write_text(folder.path() / "broken" / "one" / "run.json", "{");
  const Outcome broken = refused({"report", "broken"}, folder.path());
  EXPECT_THAT(broken.error, AllOf(HasSubstr("none of the 1 runs below 'broken'"), HasSubstr("one/run.json")));
  EXPECT_THAT(tree(folder.path()), Not(Contains(HasSubstr("index.html"))));
}

TEST(ReportOfAFolder, LeavesAForeignPageAlone) {
  TemporaryFolder folder;
  write_run(folder.path() / "site" / "run", 1);
  write_text(folder.path() / "site" / "index.html", "<h1>My site</h1>");
  const Outcome outcome = refused({"report", "site"}, folder.path());
  EXPECT_THAT(outcome.error,
              AllOf(HasSubstr("site/index.html"), HasSubstr("not written by Diptych"), HasSubstr("--out")));
  EXPECT_EQ(read_text(folder.path() / "site" / "index.html"), "<h1>My site</h1>");
}

}  // namespace
}  // namespace diptych::testing
