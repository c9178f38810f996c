// The gate's configuration, verdicts and views. Each way to pass has a twin that must not.

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"
#include "reports/analysis/analyse.h"
#include "reports/gate/gate.h"
#include "reports/run/json_access.h"
#include "reports/views/gate_views.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::sample_run;
using testing::SampleCell;

constexpr const char* today = "2026-11-21";

GateConfig config_of(const std::string& text) { return parse_gate_config(text, "diptych.toml", today); }

std::string refusal(const std::string& text) {
  try {
    config_of(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(GateConfig, EmptyMeansTheDefaults) {
  const GateConfig config = config_of("");
  EXPECT_EQ(config.delta_of("a", "b", "nodes", Tier::exact), 0);
  EXPECT_EQ(config.delta_of("a", "b", "instructions", Tier::instructions), 0.005);
  EXPECT_EQ(config.delta_of("a", "b", "time", Tier::time), 0.02);
}

TEST(GateConfig, TheLastOverrideThatMatchesWins) {
  const GateConfig config = config_of(R"(
[gate]
workloads = ["mlp/digits"]
metrics = ["exact", "time"]
alpha = 0.05
[delta]
time = 0.03
[[override]]
cell = "conv/*"
metric = "time"
delta = 0.1
[[override]]
cell = "conv/block/eager"
metric = "*"
delta = 0.2
[[override]]
metric = "peak_bytes"
delta = 1
)");
  EXPECT_EQ(config.delta_of("mlp/digits", "eager", "time", Tier::time), 0.03);
  EXPECT_EQ(config.delta_of("conv/digits", "graph", "time", Tier::time), 0.1);
  EXPECT_EQ(config.delta_of("conv/digits", "graph", "nodes", Tier::exact), 0);
  EXPECT_EQ(config.delta_of("conv/block", "eager", "time", Tier::time), 0.2);
  EXPECT_EQ(config.delta_of("conv/block", "eager", "peak_bytes", Tier::exact), 1);
  EXPECT_THAT(config.workloads, ElementsAre("mlp/digits"));
  EXPECT_EQ(config.alpha, 0.05);
}

TEST(GateConfig, RefusalsNameFileLineAndTheNearestKey) {
  EXPECT_THAT(refusal("[delta]\ntimes = 0.1\n"), AllOf(HasSubstr("diptych.toml:2"), HasSubstr("did you mean 'time'")));
  EXPECT_THAT(refusal("\n[mutes]\n"), AllOf(HasSubstr("diptych.toml:2"), HasSubstr("did you mean 'mute'")));
  EXPECT_THAT(refusal("[delta]\ntime = -0.1"), HasSubstr("diptych.toml:2"));
  EXPECT_THAT(refusal("[delta]\ntime = nan"), HasSubstr("from 0 to 10"));
  EXPECT_THAT(refusal("[delta]\ntime = inf"), HasSubstr("from 0 to 10"));
  EXPECT_THAT(refusal("[delta]\ntime = \"5 %\""), HasSubstr("from 0 to 10"));
  EXPECT_THAT(refusal("delta = 3"), HasSubstr("[delta]"));
  EXPECT_THAT(refusal("[mute]\ncell = \"a\""), HasSubstr("[[mute]]"));
  EXPECT_THAT(refusal("mute = [1]"), HasSubstr("[[mute]]"));
  EXPECT_THAT(refusal("[[override]]\ncell = \"a\""), HasSubstr("needs a 'delta'"));
  EXPECT_THAT(refusal("[gate]\nmetrics = [\"tine\"]"), HasSubstr("did you mean 'time'"));
  EXPECT_THAT(refusal("[gate]\nmetrics = []"), HasSubstr("isn't empty"));
  EXPECT_THAT(refusal("[gate]\nalpha = 0"), HasSubstr("between 0 and 0.5"));
  EXPECT_THAT(refusal("[delta\n"), AllOf(HasSubstr("diptych.toml:1"), HasSubstr("not TOML")));
  EXPECT_THAT(refusal("\xFF\xFE"), HasSubstr("not TOML"));
  EXPECT_THAT(refusal("[delta]\ntime = 0.1\ntime = 0.2"), HasSubstr("not TOML"));
}

// Every prefix of a valid file either loads or is refused with its name; none does anything else.
TEST(GateConfig, TruncatedFilesAreRefusedOrWhole) {
  const std::string whole =
      "[gate]\nalpha = 0.01\n[delta]\ntime = 0.05\n[[mute]]\ncell = \"a/*\"\nuntil = \"2026-12-31\"\nreason = \"x\"\n";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string outcome = refusal(whole.substr(0, length));
    EXPECT_TRUE(outcome == "accepted" || outcome.starts_with("diptych.toml:")) << length << ": " << outcome;
  }
}

TEST(GateConfig, MutesNeedADayAReasonAndTheFuture) {
  const auto mute = [](const std::string& rest) { return "\n\n[[mute]]\ncell = \"conv/*\"\n" + rest; };
  EXPECT_THAT(refusal(mute("reason = \"r\"")), AllOf(HasSubstr("diptych.toml:3"), HasSubstr("'until'")));
  EXPECT_THAT(refusal(mute("until = 2027-01-01")), HasSubstr("'reason'"));
  EXPECT_THAT(refusal(mute("until = 2027-01-01\nreason = \"\"")), HasSubstr("isn't empty"));
  EXPECT_THAT(refusal(mute("until = \"soon\"\nreason = \"r\"")), HasSubstr("2027-01-31"));
  EXPECT_THAT(refusal(mute("until = \"2027-02-29\"\nreason = \"r\"")), HasSubstr("has to be a day"));
  EXPECT_THAT(refusal(mute("until = \"2027-1-1\"\nreason = \"r\"")), HasSubstr("has to be a day"));
  EXPECT_THAT(refusal(mute("until = 20270101\nreason = \"r\"")), HasSubstr("has to be a day"));
  EXPECT_EQ(refusal(mute("until = \"2028-02-29\"\nreason = \"r\"")), "accepted");
  EXPECT_EQ(refusal(mute("until = 2026-11-21\nreason = \"r\"")), "accepted");  // today it still holds
  EXPECT_THAT(
      refusal(mute("until = 2026-11-20\nreason = \"new allocator\"")),
      AllOf(HasSubstr("diptych.toml:3"), HasSubstr("expired"), HasSubstr("2026-11-20"), HasSubstr("new allocator")));
}

TEST(Glob, MatchesWithoutBacktrackingForever) {
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("mlp/*/graph", "mlp/digits/graph"));
  EXPECT_TRUE(glob_matches("*a*b", "xxaxxbxb"));
  EXPECT_TRUE(glob_matches("?lp*", "mlp"));
  EXPECT_FALSE(glob_matches("mlp", "mlp/digits"));
  EXPECT_FALSE(glob_matches("", "a"));
  EXPECT_FALSE(glob_matches("?", ""));
  EXPECT_FALSE(glob_matches("*a*a*a*a*a*a*a*a*a*a*b", std::string(5000, 'a')));
}

// ---- verdicts

Json base_run() {
  Json run = sample_run();
  analyse(run);
  return run;
}

Json slower(double factor) {
  SampleCell cell;
  cell.seconds[2] *= factor;
  Json run = sample_run({cell});
  analyse(run);
  return run;
}

Json compared(const Json& base, const Json& head) {
  CompareOptions options;
  options.interleaved = true;
  return compare_runs(base, head, options);
}

GateSetup setup_of(bool time_decides = true) {
  GateSetup setup;
  setup.base = "main";
  setup.head = "branch";
  setup.today = today;
  setup.time_decides = time_decides;
  setup.time_note = time_decides ? "calibrated" : "no calibration";
  return setup;
}

Json judged(const Json& head, const Json& again = nullptr, const std::string& config = "", bool time_decides = true) {
  return judge_gate(compared(base_run(), head), again.is_null() ? Json() : compared(base_run(), again),
                    config_of(config), setup_of(time_decides));
}

const Json& row(const Json& gate, const std::string& arm, const std::string& metric) {
  static const Json none;
  for (const Json& candidate : gate["rows"]) {
    if (candidate["arm"] == arm && candidate["metric"] == metric) {
      return candidate;
    }
  }
  return none;
}

TEST(Gate, TheSamePasses) {
  const Json gate = judged(base_run());
  EXPECT_EQ(gate["verdict"], "PASS");
  EXPECT_EQ(gate["exit_code"], 0);
  EXPECT_EQ(gate["schema"], "diptych.gate/1");
}

TEST(Gate, ARegressionNeedsBothStages) {
  const Json twice = judged(slower(1.1), slower(1.1));
  EXPECT_EQ(twice["verdict"], "REGRESSED");
  EXPECT_EQ(twice["exit_code"], 2);
  EXPECT_THAT(twice["reason"].get<std::string>(), HasSubstr("mlp/digits/graph time"));
  EXPECT_EQ(twice["stages"]["confirmed"], 1);
  const Json once = judged(slower(1.1), base_run());
  EXPECT_EQ(once["exit_code"], 0);
  EXPECT_EQ(row(once, "graph", "time")["screened"], "REGRESSED");
  EXPECT_EQ(row(once, "graph", "time")["confirmed"], "EQUIVALENT");
  EXPECT_EQ(row(once, "graph", "time")["reason"], "not-confirmed");
  // Where nothing can be measured again the first look counts.
  EXPECT_EQ(judged(slower(1.1))["exit_code"], 2);
}

TEST(Gate, TheBlunterOfTwoLooksSaysWhatIsDetected) {
  const Json screen = compared(base_run(), slower(1.1));
  const double first = row(screen, "graph", "time")["detectable"].get<double>();
  for (const double second : {first / 2, first * 2}) {
    Json again = screen;
    for (Json& candidate : again["rows"]) {
      candidate["detectable"] = second;
    }
    const Json gate = judge_gate(screen, again, config_of(""), setup_of());
    EXPECT_EQ(row(gate, "graph", "time")["detectable"], std::max(first, second));
    EXPECT_EQ(row(gate, "eager", "time")["detectable"], row(screen, "eager", "time")["detectable"]) << "one look";
  }
}

TEST(Gate, ASecondLookThatFailsIsNoPass) {
  Json broken = slower(1.1);
  broken["cells"][0]["validity"]["agree"] = false;
  EXPECT_EQ(judged(slower(1.1), broken)["exit_code"], 3);
  Json noisy = slower(1.1);
  noisy["cells"][0]["processes"][0]["control_drift"] = 0.5;
  EXPECT_EQ(judged(slower(1.1), noisy)["exit_code"], 3);
  Json gone = slower(1.1);
  gone["cells"] = Json::array();
  const Json gate =
      judge_gate(compared(base_run(), slower(1.1)), compared(base_run(), gone), config_of(""), setup_of());
  EXPECT_EQ(gate["exit_code"], 3);
}

TEST(Gate, TimesAreAdvisoryWithoutACalibration) {
  const Json gate = judged(slower(1.5), nullptr, "", false);
  EXPECT_EQ(gate["exit_code"], 0);
  EXPECT_EQ(row(gate, "graph", "time")["role"], "advisory");
  EXPECT_EQ(row(gate, "graph", "time")["verdict"], "REGRESSED");
  Json more = slower(1.5);
  more["cells"][0]["arms"][2]["exact"]["dispatches"] = 1000;
  EXPECT_EQ(judged(more, nullptr, "", false)["exit_code"], 2);
}

TEST(Gate, NothingIsNeverAPass) {
  Json empty = base_run();
  empty["cells"] = Json::array();
  EXPECT_EQ(judged(empty)["exit_code"], 3);
  EXPECT_EQ(judge_gate(compared(empty, empty), nullptr, config_of(""), setup_of())["exit_code"], 3);
  EXPECT_EQ(judge_gate(Json::object(), nullptr, config_of(""), setup_of())["exit_code"], 3);
  EXPECT_EQ(judge_gate(nullptr, nullptr, config_of(""), setup_of())["exit_code"], 3);
  const std::string everything = "[[mute]]\ncell = \"*\"\nuntil = 2099-01-01\nreason = \"quiet\"\n";
  EXPECT_EQ(judged(base_run(), nullptr, everything)["exit_code"], 3);
  Json only_time = base_run();
  for (Json& arm : only_time["cells"][0]["arms"]) {
    for (auto& [name, value] : arm["exact"].items()) {
      value = nullptr;
    }
  }
  EXPECT_EQ(judge_gate(compared(only_time, only_time), nullptr, config_of(""), setup_of(false))["exit_code"], 3);
}

TEST(Gate, InvalidAndContaminatedRowsAreNoPass) {
  Json invalid = base_run();
  invalid["cells"][0]["validity"]["agree"] = false;
  EXPECT_EQ(judged(invalid)["exit_code"], 3);
  Json noisy = base_run();
  noisy["cells"][0]["processes"][3]["steal_seconds"] = 1e3;
  EXPECT_EQ(judged(noisy)["exit_code"], 3);
  EXPECT_THAT(judged(noisy)["reason"].get<std::string>(), HasSubstr("CONTAMINATED"));
}

TEST(Gate, ACellThatIsInvalidOnBothSidesIsNoPass) {
  Json run = testing::analysed_run({{}, {.workload = "other/cell"}});
  Json& cell = run["cells"][0];
  cell["validity"]["agree"] = false;
  cell["validity"]["reason"] = "held-out accuracy of eager is 0.94";
  cell["processes"] = Json::array();
  for (Json& arm : cell["arms"]) {
    for (auto& [name, value] : arm["exact"].items()) {
      value = nullptr;
    }
  }
  for (const bool time_decides : {true, false}) {
    const Json gate = judge_gate(compared(run, run), nullptr, config_of(""), setup_of(time_decides));
    EXPECT_EQ(gate["exit_code"], 3);
    EXPECT_THAT(gate["reason"].get<std::string>(), HasSubstr(cell["workload"].get<std::string>()));
  }
  // Its counts may be there and equal.
  Json counted = testing::analysed_run();
  counted["cells"][0]["validity"]["agree"] = false;
  EXPECT_EQ(judge_gate(compared(counted, counted), nullptr, config_of(""), setup_of(false))["exit_code"], 3);
}

TEST(Gate, VanishedCellsAreNamedAndNoPass) {
  Json less = base_run();
  less["cells"][0]["arms"].erase(1);
  const Json gate = judged(less);
  EXPECT_EQ(gate["exit_code"], 3);
  EXPECT_THAT(gate["vanished"], ElementsAre("mlp/digits/replay"));
  EXPECT_THAT(gate["reason"].get<std::string>(), HasSubstr("mlp/digits/replay"));
  const Json meant =
      judged(less, nullptr,
             "[[mute]]\ncell = \"mlp/*/replay\"\nmetric = \"vanished\"\nuntil = 2099-01-01\nreason = \"dropped\"\n");
  EXPECT_EQ(meant["exit_code"], 0);
  EXPECT_THAT(meant["vanished_as_expected"], ElementsAre("mlp/digits/replay"));
  const Json added = judge_gate(compared(less, base_run()), nullptr, config_of(""), setup_of());
  EXPECT_EQ(added["exit_code"], 0);
  EXPECT_THAT(added["new"], ElementsAre("mlp/digits/replay"));
}

TEST(Gate, AMuteHoldsForItsRowsOnly) {
  const std::string mute =
      "[[mute]]\ncell = \"mlp/digits/graph\"\nmetric = \"time\"\nuntil = 2099-01-01\nreason = \"known\"\n";
  const Json gate = judged(slower(1.2), nullptr, mute);
  EXPECT_EQ(gate["exit_code"], 0);
  EXPECT_EQ(row(gate, "graph", "time")["role"], "muted");
  Json both = slower(1.2);
  both["cells"][0]["arms"][2]["exact"]["nodes"] = 1000;
  EXPECT_EQ(judged(both, nullptr, mute)["exit_code"], 2);
  const Json unused = judged(base_run(), nullptr, "[[mute]]\ncell = \"nothing\"\nuntil = 2099-01-01\nreason = \"x\"\n");
  EXPECT_THAT(unused["notes"].dump(), HasSubstr("matches nothing"));
  EXPECT_EQ(unused["exit_code"], 0);
}

TEST(Gate, TheSameBinaryIsUnchanged) {
  GateSetup setup = setup_of();
  setup.unchanged = true;
  setup.unchanged_note = "the same binary and libraries";
  const Json gate = judge_gate(Json::object(), nullptr, config_of(""), setup);
  EXPECT_EQ(gate["exit_code"], 0);
  EXPECT_EQ(gate["reason"], "the same binary and libraries");
}

// ---- views

Json hostile_gate() {
  Json base = base_run();
  base["cells"][0]["workload"] = "x,y:z\n::error::%0A<b>\"&|`@all\x1b";
  Json head = base;
  head["cells"][0]["arms"][0]["exact"]["allocations"] = 1e6;
  head["cells"][0]["arms"].erase(1);
  return judge_gate(compared(base, head), nullptr, config_of(""), setup_of());
}

TEST(GateViews, AnnotationsAreOneLineEachAndEscaped) {
  const std::string text = render_annotations(hostile_gate());
  ASSERT_FALSE(text.empty());
  std::size_t lines = 0;
  for (std::size_t start = 0; start < text.size(); start = text.find('\n', start) + 1) {
    EXPECT_TRUE(text.substr(start).starts_with("::error title=")) << text;
    const std::string line = text.substr(start, text.find('\n', start) - start);
    const std::string title = line.substr(0, line.find("::", 2));
    EXPECT_EQ(title.find(','), std::string::npos) << title;
    EXPECT_EQ(title.find(':', 2), std::string::npos) << title;
    EXPECT_THAT(line, HasSubstr("%250A"));  // a written %0A stays one
    ++lines;
  }
  EXPECT_EQ(lines, 2u);  // a regression and a vanished cell
  EXPECT_EQ(render_annotations(judged(base_run())), "");
}

TEST(GateViews, AtMostTenAnnotationsTheLastOfWhichCountsTheOthers) {
  std::vector<SampleCell> cells;
  for (int i = 0; i < 12; ++i) {
    cells.push_back({});
    cells.back().workload = fmt::format("w{}", i);
  }
  Json head = sample_run(cells);
  for (Json& cell : head["cells"]) {
    cell["arms"][0]["exact"]["dispatches"] = 1e6;
  }
  const Json gate = judge_gate(compared(sample_run(cells), head), nullptr, config_of(""), setup_of());
  const std::string text = render_annotations(gate);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_THAT(text, HasSubstr("and 3 more"));
}

TEST(GateViews, AnEmptyGateSaysSoEverywhere) {
  const Json gate = judge_gate(Json::object(), nullptr, config_of(""), setup_of());
  EXPECT_THAT(render_annotations(gate),
              HasSubstr("::error title=Performance gate%3A CANNOT TELL::nothing was compared"));
  EXPECT_THAT(render_junit(gate), AllOf(HasSubstr("tests=\"1\""), HasSubstr("errors=\"1\""), HasSubstr("<error")));
  EXPECT_TRUE(render_gate(gate).starts_with("CANNOT TELL: nothing was compared"));
  EXPECT_TRUE(render_gate_markdown(gate).starts_with("## Performance gate: CANNOT TELL"));
}

TEST(GateViews, JUnitIsWellFormedAndCounts) {
  const std::string xml = render_junit(hostile_gate());
  const std::string declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  ASSERT_TRUE(xml.starts_with(declaration));
  EXPECT_EQ(testing::markup_problem(xml.substr(declaration.size())), "") << xml;
  EXPECT_THAT(xml, AllOf(HasSubstr("failures=\"1\""), HasSubstr("errors=\"1\""), HasSubstr("<failure ")));
  EXPECT_THAT(xml, Not(HasSubstr("<b>")));
  const std::string advisory = render_junit(judged(slower(1.5), nullptr, "", false));
  EXPECT_THAT(advisory, AllOf(HasSubstr("skipped=\"3\""), HasSubstr("failures=\"0\"")));
}

TEST(GateViews, MarkdownHasAtMost25RowsAndTheVerdictFirst) {
  std::vector<SampleCell> cells;
  for (int i = 0; i < 30; ++i) {
    cells.push_back({});
    cells.back().workload = fmt::format("w{}", i);
  }
  Json head = sample_run(cells);
  head["cells"][29]["arms"][0]["exact"]["dispatches"] = 1e6;
  const Json gate = judge_gate(compared(sample_run(cells), head), nullptr, config_of(""), setup_of());
  const std::string text = render_gate_markdown(gate);
  EXPECT_TRUE(text.starts_with("## Performance gate: REGRESSED\n"));
  std::size_t rows = 0;
  for (std::size_t at = text.find("\n| w"); at != std::string::npos; at = text.find("\n| w", at + 1)) {
    ++rows;
  }
  EXPECT_EQ(rows, 25u);
  EXPECT_LT(text.find("| w29/eager | dispatches"), text.find("<details>"));
  EXPECT_EQ(text.find("<details>", text.find("<details>") + 1), std::string::npos);
  const std::string hostile = render_gate_markdown(hostile_gate());
  EXPECT_THAT(hostile, Not(HasSubstr("<b>")));
  EXPECT_THAT(hostile, Not(HasSubstr("\n::error")));
}

}  // namespace
}  // namespace diptych::reports
