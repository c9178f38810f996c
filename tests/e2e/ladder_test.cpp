// `diptych ladder`: every rung in the same rounds, printed and in run.json.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/run/json_access.h"
#include "reports/run/schema.h"
#include "tests/e2e/program.h"
#include "tests/support/on_one_cpu.h"
#include "tests/support/speed_bound.h"

namespace diptych::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::json;

TEST(Ladder, EndsWithTheRungOfThreads) {
  if (usable_cpus() < 2) {
    GTEST_SKIP() << "several threads are measured on as many CPUs; this process may use one";
  }
  TemporaryFolder folder;
  const Outcome outcome = diptych({"ladder", "mlp/simplenet", "--threads", "2"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("2 threads"), HasSubstr("+epilogue (= graph) -> +threads")));
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  EXPECT_THAT(reports::validate(run), IsEmpty());
  EXPECT_EQ(run["threads"], 2);
  EXPECT_THAT(run["pinned"], SizeIs(2));
  const Json& cell = run["cells"][0];
  EXPECT_THAT(cell["reproduce"].get<std::string>(),
              HasSubstr("diptych ladder mlp/simplenet --quick --seed 1 --threads 2"));
  EXPECT_EQ(cell["validity"]["agree"], true);
  for (const Json& arm : cell["arms"]) {
    EXPECT_EQ(arm["threads"], arm["name"] == "+threads" ? 2 : 1) << arm["name"];
  }
  const Json& last = cell["limits"]["arms"].back();
  EXPECT_EQ(last["name"], "+threads");
  EXPECT_EQ(last["share"], nullptr) << "the limit was measured on one thread";
}

TEST(Ladder, MeasuresEveryRungInTheSameRounds) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"ladder", "micro/dispatch", "--json", "copy.json", "--seed", "7"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_EQ(outcome.error, "");
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("eager -> replay -> +plan -> +simplify -> +fuse -> +epilogue (= graph)"),
                                    HasSubstr("residual"), HasSubstr("whole gap"), HasSubstr("bitwise"),
                                    HasSubstr("|=="), HasSubstr("report.html")));
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  EXPECT_EQ(run, read_json(folder.path() / "copy.json"));
  EXPECT_THAT(reports::validate(run), IsEmpty());
  ASSERT_THAT(run["cells"], SizeIs(1));
  const Json& cell = run["cells"][0];
  EXPECT_EQ(cell["reproduce"], "diptych ladder micro/dispatch --quick --seed 7");
  EXPECT_EQ(cell["ladder"]["order"], Json({"eager", "replay", "+plan", "+simplify", "+fuse", "graph"}));
  EXPECT_EQ(cell["arms"][5]["rung"], "+epilogue");
  double sum = cell["ladder"]["residual_seconds"]["estimate"];
  for (const Json& rung : cell["ladder"]["rungs"]) {
    sum += rung["saved_seconds"]["estimate"].get<double>();
    EXPECT_EQ(rung["ulp"], 0);
  }
  EXPECT_NEAR(sum, cell["ladder"]["gap_seconds"]["estimate"].get<double>(), 1e-12);
  for (const Json& process : cell["processes"]) {
    for (const Json& round : process["rounds"]) {
      EXPECT_THAT(round["order"], SizeIs(6));
    }
  }
  EXPECT_THAT(read_text(run_folder(folder.path()) / "summary.md"), HasSubstr("## The ladder"));
  EXPECT_THAT(read_text(run_folder(folder.path()) / "report.html"), HasSubstr("what the rungs don&#39;t explain"));
}

// A hundred dispatches of tiny ops: nearly all that a graph saves is saved by capturing.
TEST(LadderFigures, CapturingIsMostOfWhatDispatchesCost) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"ladder", "micro/dispatch", "--seed", "7"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  const Json& cell = run["cells"][0];
  const Json& capturing = cell["ladder"]["rungs"][0];
  const Json& saved = capturing["saved_seconds"];
  const double gap = cell["ladder"]["gap_seconds"]["estimate"];
  Judgement share{Answer::cannot_tell, reports::number(capturing, "share").value_or(0), 0, 1};
  if (capturing["share"].is_number()) {  // left out where the gap's own interval holds zero
    share.low = saved["low"].get<double>() / gap;
    share.high = saved["high"].get<double>() / gap;
    share.answer = answer_of(share.low, share.high, 0.5, Side::at_least);
  }
  expect_told("the share of capturing, at least 0.5", share, outcome.machine);
}

TEST(Ladder, ShufflesTheOrderOfThePasses) {
  TemporaryFolder folder;
  const Outcome outcome = diptych({"ladder", "micro/dispatch", "--shuffle-order"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  EXPECT_THAT(outcome.output, HasSubstr("by place"));
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  EXPECT_THAT(reports::validate(run), IsEmpty());
  const Json& cell = run["cells"][0];
  std::vector<std::string> names;
  for (const Json& arm : cell["arms"]) {
    names.push_back(arm["name"]);
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"eager", "replay", "+plan", "+simplify", "+fuse", "graph"}));
  EXPECT_THAT(names, ::testing::Contains(::testing::StartsWith("replay+")).Times(::testing::Ge(4)));
  EXPECT_EQ(cell["reproduce"], "diptych ladder micro/dispatch --quick --seed 1 --shuffle-order");
  for (const Json& rung : cell["ladder"]["rungs"]) {
    if (rung["to"] != "replay") {
      EXPECT_GE(rung["by_place"]["places"], 2);
      EXPECT_LE(rung["by_place"]["low_seconds"], rung["saved_seconds"]["estimate"]);
      EXPECT_GE(rung["by_place"]["high_seconds"], rung["saved_seconds"]["estimate"]);
    }
  }
}

TEST(Ladder, ArmsOfARunNameTheLadderAndItsRungs) {
  TemporaryFolder folder;
  const Outcome outcome =
      diptych({"run", "micro/dispatch", "--arms", "ladder,+epilogue,replay+simplify"}, folder.path());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.error;
  std::vector<std::string> names;
  const Json run = read_json(run_folder(folder.path()) / "run.json");
  for (const Json& arm : run["cells"][0]["arms"]) {
    names.push_back(arm["name"]);
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("eager", "replay", "+plan", "+simplify", "+fuse", "graph", "replay+simplify"));
}

TEST(Ladder, WrongUsageNamesTheNearest) {
  for (const auto& [arguments, said] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"ladder"}, "workload"},
           {{"ladder", "mlp/digts"}, "'mlp/digits'"},
           {{"ladder", "mlp"}, "'mlp' is 3 workloads"},
           {{"ladder", "mlp/digits", "micro/dispatch"}, "one argument too many"},
           {{"ladder", "mlp/digits", "--shufle-order"}, "'--shuffle-order'"},
           {{"ladder", "mlp/digits", "--quick", "--standard"}, "--standard"},
           {{"ladder", "mlp/digits", "--arms", "eager"}, "no option '--arms'"},
           {{"ladderr", "mlp/digits"}, "'ladder'"},
           {{"run", "micro/dispatch", "--arms", "replay+simplfy"}, "no arm 'replay+simplfy'"},
       }) {
    expect_usage_error(arguments, said);
  }
}

TEST(Ladder, HelpTeaches) {
  TemporaryFolder folder;
  const Outcome help = diptych({"ladder", "--help"}, folder.path());
  EXPECT_EQ(help.exit_code, 0);
  for (const char* part : {"--quick", "--standard", "--certify", "--shuffle-order", "--json", "--seed", "--out",
                           "Examples:", "docs/ladder.md"}) {
    EXPECT_THAT(help.output, HasSubstr(part));
  }
}

}  // namespace
}  // namespace diptych::testing
