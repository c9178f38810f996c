// `diptych why`: the ladder and a profile, measured and explained on one screen.

#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/text.h"
#include "reports/run/schema.h"
#include "tests/e2e/program.h"
#include "tests/reports/well_formed.h"

namespace diptych::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Json = nlohmann::json;

/// What the flame graphs and the memory of a cell are drawn of, beside figures that were counted otherwise.
void expect_pictures(const Json& cell) {
  const Json& profile = cell["profile"];
  const Json& frames = profile["flames"]["frames"];
  for (std::size_t arm = 0; arm < 2; ++arm) {
    double outermost = 0;
    for (const Json& frame : frames) {
      outermost += frame["depth"] == 1 ? frame["seconds"][arm].get<double>() : 0;
    }
    const double total = profile["arms"][arm]["seconds"];
    EXPECT_NEAR(frames[0]["seconds"][arm].get<double>(), outermost, 1e-9);
    EXPECT_NEAR(outermost, total, 0.01 * total);
  }
  const Json& eager = profile["memory"][0];
  const Json& graph = profile["memory"][1];
  EXPECT_EQ(eager["peak_bytes"], cell["arms"].front()["exact"]["peak_bytes"]) << "as the allocator counts it";
  EXPECT_EQ(graph["arena_bytes"], cell["arms"].back()["exact"]["planned_peak_bytes"]);
  EXPECT_TRUE(eager["arena_bytes"].is_null());
  for (const Json& arm : {eager, graph}) {
    std::int64_t most = 0;
    for (const Json& point : arm["timeline"]) {
      most = std::max(most, point[1].get<std::int64_t>());
    }
    EXPECT_EQ(most, arm["peak_bytes"]);
    EXPECT_FALSE(arm["holders"].empty());
  }
}

TEST(Why, AnswersOnOneScreenAndKeepsWhatItRestsOn) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"why", "attention/written-out", "--calls", "200", "--seed", "7"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(outcome.error, "");
  EXPECT_FALSE(has_control_characters(outcome.output));
  std::istringstream in(outcome.output);
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines) {
    EXPECT_LE(display_width(line), 120) << line;
  }
  EXPECT_LE(lines, 25) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("attention/written-out, quick: 3 processes x 6 rounds, seed 7"),
                                    HasSubstr("How much   graph "), HasSubstr("Causes     "),
                                    HasSubstr("joined into attention by attention"), HasSubstr("Fusion     "),
                                    HasSubstr("Compiling  It takes"), HasSubstr("Limit      graph reaches"),
                                    HasSubstr("Next       diptych why attention/written-out --standard")));
  EXPECT_THAT(outcome.output, AnyOf(HasSubstr("INDICATIVE"), HasSubstr("CONTAMINATED")));
  const fs::path written = run_folder(folder.path());
  EXPECT_THAT(written.filename().string(), HasSubstr("why-attention-written-out"));
  const Json run = read_json(written / "run.json");
  EXPECT_THAT(reports::validate(run), IsEmpty());
  EXPECT_EQ(run["why"]["calls"], 200);
  EXPECT_EQ(run["cells"][0]["ladder"]["order"].size(), 6);
  const Json& profile = run["cells"][0]["profile"];
  for (std::size_t arm = 0; arm < 2; ++arm) {
    double sum = 0;
    for (const Json& row : profile["rows"]) {
      sum += row["arms"][arm]["seconds"].is_number() ? row["arms"][arm]["seconds"].get<double>() : 0;
    }
    EXPECT_NEAR(sum, profile["arms"][arm]["seconds"].get<double>(), 1e-12);
  }
  expect_pictures(run["cells"][0]);
  const std::string page = read_text(written / "report.html");
  EXPECT_EQ(reports::testing::markup_problem(page), "");
  EXPECT_THAT(page, AllOf(HasSubstr("<h2>Why</h2>"), HasSubstr("<h3>Flame graphs</h3>"), HasSubstr("<h3>Memory</h3>"),
                          HasSubstr("softmax: eager "), HasSubstr("The arena of graph")));
  const std::string text = read_text(written / "why.md");
  EXPECT_THAT(text, AllOf(HasSubstr("# Why: attention/written-out"),
                          AnyOf(HasSubstr("over 200 calls"), HasSubstr("whether it pays is undecided"))))
      << "the second on a machine that is anything but quiet";
  // The views are made from run.json alone.
  fs::remove(written / "why.md");
  fs::remove(written / "report.html");
  ASSERT_EQ(diptych({"report", written.string()}, folder.path()).exit_code, 0);
  EXPECT_EQ(read_text(written / "why.md"), text);
  EXPECT_EQ(read_text(written / "report.html"), page);
}

TEST(Why, AgainstAFrameworkThatIsNotThere) {
  TemporaryFolder folder;
  Command command = diptych_command({"why", "mlp/simplenet", "--against", "ort"}, folder.path());
  command.environment["DIPTYCH_ONNXRUNTIME"] = "/nowhere/libonnxruntime.so.1";
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.exit_code, 1) << "as of `run`, when an arm that was asked for fails";
  EXPECT_THAT(outcome.error, HasSubstr("ort"));
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("Against    ort was not measured: "), HasSubstr("Causes     "),
                                    HasSubstr("--against ort")));
  EXPECT_LE(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 25);
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  EXPECT_THAT(reports::validate(run), IsEmpty());
  EXPECT_EQ(run["cells"][0]["reproduce"], "diptych ladder mlp/simplenet --quick --seed 1 --against ort");
  expect_usage_error({"why", "mlp/simplenet", "--against", "graph"}, "no other framework's arm");
  expect_usage_error({"ladder", "mlp/simplenet", "--against", "orp"}, "did you mean 'ort'");
}

TEST(Why, WrongUsageNamesTheNearest) {
  for (const auto& [arguments, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"why"}, "workload"},
           {{"why", "mlp/digts"}, "'mlp/digits'"},
           {{"why", "mlp"}, "'mlp' is 3 workloads"},
           {{"why", "mlp/digits", "--calls", "0"}, "--calls"},
           {{"why", "mlp/digits", "--calls", "many"}, "--calls"},
           {{"why", "mlp/digits", "--quick", "--standard"}, "--standard"},
           {{"why", "mlp/digits", "--gate"}, "no option '--gate'"},
           {{"why", "mlp/digits", "micro/dispatch"}, "one argument too many"},
           {{"why", "missing.onnx"}, "missing.onnx"},
       }) {
    expect_usage_error(arguments, said);
  }
}

TEST(Why, HelpTeaches) {
  TemporaryFolder folder;
  const Outcome help = diptych({"why", "--help"}, folder.path());
  EXPECT_EQ(help.exit_code, 0);
  for (const char* part :
       {"--calls", "--quick", "--standard", "--seed", "--out", "Examples:", "docs/why.md", "Words"}) {
    EXPECT_THAT(help.output, HasSubstr(part));
  }
}

}  // namespace
}  // namespace diptych::testing
