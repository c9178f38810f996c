// `diptych run`: what it writes, what it prints, and how it measures.

#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/run/json_access.h"
#include "reports/run/schema.h"
#include "reports/text/format.h"
#include "tests/e2e/program.h"
#include "tests/reports/well_formed.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;
using Json = nlohmann::json;

/// One run that several tests look at.
struct FinishedRun {
  explicit FinishedRun(const std::vector<std::string>& arguments) {
    outcome = diptych(arguments, folder.path());
    if (outcome.exit_code == 0) {
      run_folder = testing::run_folder(folder.path());
      run = read_json(run_folder / "run.json");
    }
  }
  TemporaryFolder folder;
  Outcome outcome;
  fs::path run_folder;
  Json run;
};

const FinishedRun& dispatch_run() {
  static const FinishedRun run({"run", "micro/dispatch", "--quick", "--seed", "11"});
  return run;
}

const FinishedRun& digits_run() {
  static const FinishedRun run({"run", "--quick", "mlp/digits"});
  return run;
}

std::vector<std::string> arm_names(const Json& cell) {
  std::vector<std::string> names;
  for (const Json& arm : cell["arms"]) {
    names.push_back(arm["name"]);
  }
  return names;
}

/// [process][round] -> order of the arms.
std::vector<std::vector<std::vector<std::string>>> orders(const Json& cell) {
  std::vector<std::vector<std::vector<std::string>>> result;
  for (const Json& process : cell["processes"]) {
    result.emplace_back();
    for (const Json& round : process["rounds"]) {
      result.back().push_back(round["order"]);
    }
  }
  return result;
}

std::vector<std::uint64_t> process_seeds(const Json& cell) {
  std::vector<std::uint64_t> result;
  for (const Json& process : cell["processes"]) {
    result.push_back(process["seed"]);
  }
  return result;
}

/// The page as a reader without JavaScript, styles or network sees it.
std::string without_scripts(std::string html) {
  for (const std::string tag : {"script", "style"}) {
    for (std::size_t start = html.find("<" + tag); start != std::string::npos; start = html.find("<" + tag)) {
      const std::size_t end = html.find("</" + tag + ">", start);
      html.erase(start, end == std::string::npos ? end : end - start + tag.size() + 3);
    }
  }
  return html;
}

TEST(Run, WritesItsFolderAndNamesIt) {
  const FinishedRun& run = dispatch_run();
  ASSERT_EQ(run.outcome.exit_code, 0) << run.outcome.error;
  EXPECT_TRUE(std::regex_match(run.run_folder.filename().string(), std::regex(R"(\d{8}T\d{6}Z-micro-dispatch)")))
      << run.run_folder;
  const std::vector<std::string> files = tree(run.run_folder);
  for (const char* name : {"run.json", "summary.md", "report.html", "traces/micro-dispatch-eager.json",
                           "traces/micro-dispatch-graph.json", "graphs/micro-dispatch.svg"}) {
    EXPECT_THAT(files, Contains(name));
  }
  EXPECT_THAT(unfinished_files(run.folder.path()), IsEmpty());
  EXPECT_THAT(run.outcome.output, HasSubstr("diptych-out/" + run.run_folder.filename().string()));
}

TEST(Run, JsonFitsTheSchema) {
  for (const FinishedRun* run : {&dispatch_run(), &digits_run()}) {
    ASSERT_EQ(run->outcome.exit_code, 0) << run->outcome.error;
    EXPECT_THAT(reports::validate(run->run), IsEmpty());
    EXPECT_EQ(run->run["schema"], "diptych.run/1");
    EXPECT_EQ(run->run["status"], "complete");
    EXPECT_EQ(run->run["size"]["processes"], 3);
    ASSERT_THAT(run->run["cells"], SizeIs(1));
    EXPECT_EQ(run->run["cells"][0]["validity"]["agree"], true);
    EXPECT_TRUE(run->run["environment"].contains("benchmark"));
  }
  EXPECT_EQ(dispatch_run().run["seed"], 11);
  EXPECT_EQ(dispatch_run().run["command"], Json({"diptych", "run", "micro/dispatch", "--quick", "--seed", "11"}));
  EXPECT_EQ(dispatch_run().run["cells"][0]["reproduce"], "diptych run micro/dispatch --quick --seed 11");
}

TEST(Run, PrintsTheTable) {
  const FinishedRun& run = digits_run();
  ASSERT_EQ(run.outcome.exit_code, 0) << run.outcome.error;
  const std::string& out = run.outcome.output;
  for (const char* column : {"workload", "eager", "replay", "graph", "speedup", "compile", "break-even", "verdict"}) {
    EXPECT_THAT(out, HasSubstr(column));
  }
  // The row: a time with its spread for each of three arms, a ratio with its interval, a compile time, a verdict.
  const std::string time = R"(\d[\d.]* [mun]?s (\+-[\d.]+ %|\[[\d., ]+\]))";
  const std::regex row("mlp/digits +" + time + " +" + time + " +" + time +
                       R"( +[\d.]+x \[[\d.]+, [\d.]+\] +[\d.]+ [mun]?s.*(INDICATIVE|CONTAMINATED).*)");
  std::istringstream lines(out);
  bool found = false;
  for (std::string line; std::getline(lines, line);) {
    found = found || std::regex_match(line, row);
  }
  EXPECT_TRUE(found) << out;
}

TEST(Run, ReportIsOneReadableFile) {
  for (const FinishedRun* run : {&dispatch_run(), &digits_run()}) {
    ASSERT_EQ(run->outcome.exit_code, 0) << run->outcome.error;
    const std::string html = read_text(run->run_folder / "report.html");
    EXPECT_EQ(reports::testing::markup_problem(html), "");
    EXPECT_THAT(html, HasSubstr("Content-Security-Policy"));
    EXPECT_THAT(html, HasSubstr("default-src 'none'"));
    for (const char* outside : {"<link", "<iframe", "<img", "@import", " src=", "url(http", "url(//"}) {
      EXPECT_THAT(html, Not(HasSubstr(outside)));
    }
    // The only addresses are names of XML namespaces, and fragments of the page.
    const std::string page = std::regex_replace(html, std::regex("http://www\\.w3\\.org/[0-9]{4}/(svg|xlink)"), "");
    EXPECT_FALSE(std::regex_search(page, std::regex("https?://"))) << run->run_folder;
    EXPECT_FALSE(std::regex_search(page, std::regex("href=\"[^#]")));

    const Json& cell = run->run["cells"][0];
    const std::string plain = without_scripts(html);
    EXPECT_THAT(plain, HasSubstr("<table"));
    EXPECT_THAT(plain, HasSubstr(cell["workload"].get<std::string>()));
    for (const Json& comparison : cell["comparisons"]) {
      const auto speedup = reports::estimate(comparison["speedup"]);
      ASSERT_TRUE(speedup);
      EXPECT_THAT(plain, HasSubstr(reports::format_ratio(speedup->value, reports::Glyphs::typographic)));
      EXPECT_THAT(plain, HasSubstr(comparison["verdict"]["verdict"].get<std::string>()));
    }
  }
}

TEST(Run, SummaryNamesWorkloadVerdictAndCommand) {
  const FinishedRun& run = dispatch_run();
  ASSERT_EQ(run.outcome.exit_code, 0) << run.outcome.error;
  const std::string summary = read_text(run.run_folder / "summary.md");
  EXPECT_THAT(summary,
              AllOf(HasSubstr("micro/dispatch"), HasSubstr("diptych run micro/dispatch --quick --seed 11"),
                    HasSubstr(run.run["cells"][0]["comparisons"][0]["verdict"]["verdict"].get<std::string>())));
}

TEST(Run, DigitsLearnsTheSameInEveryMode) {
  const FinishedRun& run = digits_run();
  ASSERT_EQ(run.outcome.exit_code, 0) << run.outcome.error;
  const Json& cell = run.run["cells"][0];
  std::set<std::string> arms;
  std::set<double> accuracies;
  for (const Json& metric : cell["metrics"]) {
    ASSERT_EQ(metric["name"], "held-out accuracy");
    EXPECT_GE(metric["value"], 0.95);
    arms.insert(metric["arm"].get<std::string>());
    accuracies.insert(metric["value"].get<double>());
  }
  EXPECT_EQ(arms, (std::set<std::string>{"eager", "replay", "graph"}));
  EXPECT_THAT(accuracies, SizeIs(1));
  // Every loss of whole epochs, of both compiled arms, against eager's.
  std::smatch steps;
  const std::string check = cell["validity"]["checks"][0];
  ASSERT_TRUE(
      std::regex_match(check, steps, std::regex(R"((\d+) outputs of (\d+) steps bitwise equal between 3 arms)")))
      << check;
  EXPECT_GE(std::stoi(steps[2]), 440);
  EXPECT_EQ(std::stoi(steps[1]), 2 * std::stoi(steps[2]));
  EXPECT_THAT(cell["validity"]["checks"], Contains(HasSubstr("parameters and optimizer states bitwise equal")));
  ASSERT_THAT(cell["comparisons"], SizeIs(2));
  for (const Json& comparison : cell["comparisons"]) {
    ASSERT_TRUE(comparison["break_even"].is_object());
    if (comparison["break_even"]["reached"] == true) {
      EXPECT_GT(comparison["break_even"]["calls"], 0);
    }
  }
}

TEST(Run, RoundsAreInterleavedInRandomOrders) {
  const FinishedRun& run = dispatch_run();
  ASSERT_EQ(run.outcome.exit_code, 0) << run.outcome.error;
  const Json& cell = run.run["cells"][0];
  const std::vector<std::string> arms = arm_names(cell);
  EXPECT_THAT(arms, ::testing::ElementsAre("eager", "replay", "graph"));
  ASSERT_THAT(cell["processes"], SizeIs(3));
  std::set<std::vector<std::string>> different;
  for (const auto& process : orders(cell)) {
    ASSERT_THAT(process, SizeIs(6));
    for (std::size_t round = 0; round < process.size(); ++round) {
      EXPECT_THAT(process[round], UnorderedElementsAreArray(arms));  // every arm, once
      different.insert(process[round]);
      if (round % 2 == 1) {  // ABBA: the order before, reversed
        EXPECT_EQ(process[round], std::vector<std::string>(process[round - 1].rbegin(), process[round - 1].rend()));
      }
    }
  }
  EXPECT_GE(different.size(), 3U);
  const std::vector<std::uint64_t> seeds = process_seeds(cell);
  EXPECT_THAT(std::set<std::uint64_t>(seeds.begin(), seeds.end()), SizeIs(3));
  for (const Json& process : cell["processes"]) {
    EXPECT_GT(process["iterations"], 1);  // one count, shared by the arms
    for (const Json& round : process["rounds"]) {
      EXPECT_THAT(round["seconds"], SizeIs(arms.size()));
    }
  }
}

TEST(Run, SeedDecidesTheSchedule) {
  const FinishedRun& run = dispatch_run();
  ASSERT_EQ(run.outcome.exit_code, 0) << run.outcome.error;
  const FinishedRun again({"run", "micro/dispatch", "--seed", "11"});
  const FinishedRun other({"run", "micro/dispatch", "--seed", "12"});
  ASSERT_EQ(again.outcome.exit_code, 0) << again.outcome.error;
  ASSERT_EQ(other.outcome.exit_code, 0) << other.outcome.error;
  const Json& cell = run.run["cells"][0];
  EXPECT_EQ(orders(cell), orders(again.run["cells"][0]));
  EXPECT_EQ(process_seeds(cell), process_seeds(again.run["cells"][0]));
  EXPECT_NE(orders(cell), orders(other.run["cells"][0]));
  EXPECT_NE(process_seeds(cell), process_seeds(other.run["cells"][0]));
  for (std::size_t arm = 0; arm < cell["arms"].size(); ++arm) {
    EXPECT_EQ(cell["arms"][arm]["exact"], again.run["cells"][0]["arms"][arm]["exact"]);
  }
}

TEST(Run, FilterAndArmsChoose) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"run", "micro", "--filter", "dispatch.t", "--arms", "graph,eager"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  ASSERT_THAT(run["cells"], SizeIs(1));
  EXPECT_EQ(run["cells"][0]["workload"], "micro/dispatch-tape");
  EXPECT_THAT(arm_names(run["cells"][0]), ::testing::ElementsAre("eager", "graph"));
  EXPECT_EQ(run["cells"][0]["reproduce"], "diptych run micro/dispatch-tape --quick --seed 1 --arms eager,graph");
}

TEST(Run, OneArmIsMeasuredWithoutAVerdict) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"run", "micro/dispatch", "--arms", "eager"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, HasSubstr("nothing to compare"));
  EXPECT_THAT(reports::validate(read_json(run_folder(folder.path()) / "run.json")), IsEmpty());
}

// Google Benchmark adds "/iterations:1/manual_time" to its names; the filter applies to ours.
TEST(Run, FilterSeesTheWorkloadsNames) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"run", "micro", "--filter", "^micro/dispatch$", "--arms", "eager"}, folder.path());
  EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(diptych({"run", "micro/dispatch", "--filter", "iterations", "--arms", "eager"}, folder.path()).exit_code,
            1);
}

// Without the arm in between, its cause belongs to the step too.
TEST(Run, ASkippedArmsCauseIsNotGivenToAnother) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"run", "micro/dispatch", "--arms", "eager,graph"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  ASSERT_THAT(run["cells"][0]["rungs"], SizeIs(1));
  EXPECT_THAT(run["cells"][0]["rungs"][0]["cause"].get<std::string>(), HasSubstr("dispatch"));
}

TEST(Run, ProgressOnlyOnATerminal) {
  EXPECT_EQ(dispatch_run().outcome.error, "");
  TemporaryFolder folder;
  Command command = diptych_command({"run", "micro/dispatch", "--arms", "eager"}, folder.path());
  command.terminal = Terminal::error;
  const Outcome outcome = run_command(command);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.error, AllOf(HasSubstr("process 1/3"), HasSubstr("process 3/3"), HasSubstr("micro/dispatch")));
  EXPECT_TRUE(outcome.error.ends_with("\r\x1b[K")) << "the line is cleared at the end";
  EXPECT_FALSE(has_control_characters(outcome.output));  // standard output is a pipe here
}

TEST(Run, ColoursOnlyOnATerminalThatWantsThem) {
  EXPECT_FALSE(has_control_characters(dispatch_run().outcome.output));
  const fs::path finished = dispatch_run().run_folder;
  const auto printed = [&](const std::map<std::string, std::string>& environment) {
    TemporaryFolder folder;
    fs::copy(finished / "run.json", folder.path() / "run.json");
    Command command = diptych_command({"report", "."}, folder.path());
    command.terminal = Terminal::output;
    command.environment = environment;
    const Outcome outcome = run_command(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.error;
    EXPECT_EQ(outcome.error, "");
    return outcome.output;
  };
  EXPECT_THAT(printed({}), HasSubstr("\x1b["));
  EXPECT_THAT(printed({{"NO_COLOR", "1"}}), Not(HasSubstr("\x1b")));
  EXPECT_THAT(printed({{"TERM", "dumb"}}), Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace diptych::testing
