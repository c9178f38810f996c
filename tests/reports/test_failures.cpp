// Runs that went wrong say on the first screen what happened, what still holds and what to type next.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/analyse.h"
#include "reports/html/html.h"
#include "reports/run/json_access.h"
#include "reports/text/text.h"
#include "reports/views/failures.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::sample_run;

/// Of the only failure; checks that the page shows all of it before its first table.
RunFailure failure_on_page(Json run) {
  analyse(run);
  const std::vector<RunFailure> found = failures_of(run);
  EXPECT_EQ(found.size(), 1U);
  const std::string page = render_html(run);
  EXPECT_EQ(testing::markup_problem(page), "");
  const std::string head = page.substr(page.find("<header>"), page.find("<table") - page.find("<header>"));
  EXPECT_THAT(head, HasSubstr("class=\"notice\""));
  for (const RunFailure& failure : found) {
    EXPECT_THAT(failure.next, Not(IsEmpty()));
    for (const Suggestion& next : failure.next) {
      EXPECT_THAT(head, HasSubstr(escape_xml(next.command)));
    }
  }
  return found.empty() ? RunFailure{} : found.front();
}

TEST(Failures, AGoodRunHasNone) {
  const Json run = testing::analysed_run();
  EXPECT_THAT(failures_of(run), IsEmpty());
  EXPECT_THAT(render_html(run), Not(HasSubstr("class=\"notice\"")));
}

TEST(Failures, AnEmptyRun) {
  Json run = sample_run();
  run["cells"] = Json::array();
  const RunFailure failure = failure_on_page(run);
  EXPECT_THAT(failure.what, HasSubstr("no figures"));
  EXPECT_EQ(failure.next.front().command, "diptych run --standard") << "its own command line";
}

TEST(Failures, AnInterruptedRun) {
  Json run = sample_run({{"a"}, {"b"}});
  run["status"] = "interrupted";
  run["cells"][1]["processes"].erase(0);
  const RunFailure failure = failure_on_page(run);
  EXPECT_EQ(failure.what, "This run is not complete (interrupted): 1 of its 2 workloads has all 8 processes.");
  EXPECT_THAT(failure.holds, HasSubstr("What was measured holds"));
  EXPECT_THAT(failure.next.front().command, HasSubstr("--resume"));
}

TEST(Failures, ArmsThatDisagree) {
  Json run = sample_run({{"a"}, {"b"}});
  run["cells"][1]["validity"] = {{"agree", false}, {"checks", Json::array()}, {"reason", "loss 3 differs"}};
  const RunFailure failure = failure_on_page(run);
  EXPECT_EQ(failure.what, "1 of 2 workloads INVALID: b: loss 3 differs.");
  EXPECT_THAT(failure.holds, HasSubstr("The others hold"));
  EXPECT_EQ(failure.next.front().command, "diptych graph b --check-passes");
}

TEST(Failures, ABusyMachine) {
  Json run = sample_run();
  for (Json& process : run["cells"][0]["processes"]) {
    process["control_drift"] = 0.3;
  }
  const RunFailure failure = failure_on_page(run);
  EXPECT_THAT(failure.what, HasSubstr("1 of 1 workloads CONTAMINATED: mlp/digits: "));
  EXPECT_THAT(failure.holds, HasSubstr("counts"));
  EXPECT_EQ(failure.next.front().command, "diptych doctor");
}

TEST(Failures, HostileNamesStayText) {
  for (const std::string& name :
       std::vector<std::string>{"</script><b>", "'; rm -rf ~; '", "\xE2\x80\xAE", std::string(100'000, 'A')}) {
    Json run = sample_run({{name}});
    run["cells"][0]["validity"] = {{"agree", false}, {"checks", Json::array()}, {"reason", name}};
    run["command"] = {"diptych", name};
    const RunFailure failure = failure_on_page(run);
    EXPECT_EQ(testing::text_problem(failure.what), "");
    EXPECT_LT(failure.what.size(), 1000U);
  }
}

}  // namespace
}  // namespace diptych::reports
