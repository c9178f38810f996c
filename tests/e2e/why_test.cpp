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
  const std::string page = read_text(written / "report.html");
  EXPECT_EQ(reports::testing::markup_problem(page), "");
  EXPECT_THAT(page, HasSubstr("<h2>Why</h2>"));
  const std::string text = read_text(written / "why.md");
  EXPECT_THAT(text, AllOf(HasSubstr("# Why: attention/written-out"), HasSubstr("over 200 calls")));
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
           {{"why", "mlp"}, "no workload 'mlp'"},
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
