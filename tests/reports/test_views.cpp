#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/analyse.h"
#include "reports/analysis/evidence.h"
#include "reports/assets.h"
#include "reports/html/charts.h"
#include "reports/html/html.h"
#include "reports/html/sha256.h"
#include "reports/text/svg.h"
#include "reports/text/text.h"
#include "reports/views/markdown.h"
#include "reports/views/summary.h"
#include "reports/views/table.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::markup_problem;
using ::testing::Not;
using testing::sample_run;
using testing::SampleCell;
using Json = nlohmann::json;

SampleCell pair(const std::string& name, double eager, double graph) {
  return {name, {"eager", "graph"}, {eager, graph}, {0, 1e-2}};
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    out.push_back(line);
  }
  return out;
}

// A little of what follows each occurrence of `mark`.
std::vector<std::string> after_each(const std::string& text, const std::string& mark) {
  std::vector<std::string> out;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    out.push_back(text.substr(at + mark.size(), 40));
  }
  return out;
}

TEST(Headline, SaysWhatHappened) {
  EXPECT_THAT(headline(testing::analysed_run({SampleCell{}})),
              ::testing::MatchesRegex("mlp/digits: graph is 1\\.4.x faster than eager"));
  EXPECT_THAT(headline(testing::analysed_run({pair("a", 1e-3, 2e-3)})),
              ::testing::MatchesRegex("a: graph is [12]\\...x slower than eager"));
  EXPECT_THAT(headline(testing::analysed_run({pair("a", 1e-3, 5e-4), pair("b", 1e-3, 2e-3)})),
              AllOf(HasSubstr("Of 2 workloads: 1 faster"), HasSubstr("1 slower")));
  EXPECT_THAT(headline(Json{{"cells", Json::array()}}), HasSubstr("Nothing was measured"));
}

/// Graph takes half of the time, on a machine that wasn't quiet.
Json contaminated(Json run) {
  for (Json& cell : run["cells"]) {
    cell["processes"][0]["control_drift"] = 0.2;
  }
  analyse(run);
  return run;
}

TEST(Headline, SaysWhatIsKnownOfAContaminatedRunAndWhatIsNot) {
  EXPECT_THAT(
      headline(contaminated(sample_run({pair("a", 1e-3, 5e-4)}))),
      ::testing::MatchesRegex("a: graph is [12]\\...x \\[1\\...,.*2\\...\\] faster than eager, but the machine was "
                              "not quiet: how much of it is the machine's doing is not known"));
  EXPECT_THAT(headline(contaminated(sample_run({pair("a", 5e-4, 1e-3)}))),
              ::testing::MatchesRegex("a: graph is [12]\\...x \\[1\\...,.*2\\...\\] slower than eager, but .*"));
  EXPECT_THAT(
      headline(contaminated(sample_run({pair("a", 1e-3, 1e-3)}))),
      ::testing::MatchesRegex("a: graph against eager is undecided, .*x \\[.*\\], and the machine was not quiet"));
  const std::vector<SampleCell> cells = {pair("a", 1e-3, 5e-4), pair("b", 1e-3, 2e-4), pair("c", 1e-3, 2e-3)};
  EXPECT_THAT(
      headline(contaminated(sample_run(cells))),
      ::testing::MatchesRegex("Of 3 workloads: 2 faster than eager \\(.*x to .*x\\), 1 slower on a machine that was "
                              "not quiet, and how much of it is the machine's doing is not known"));
  Json mixed = sample_run(cells);
  mixed["cells"][1]["processes"][0]["control_drift"] = 0.2;
  mixed["cells"][2]["validity"]["agree"] = false;
  analyse(mixed);
  EXPECT_THAT(headline(mixed), ::testing::MatchesRegex(
                                   "Of 3 workloads: 1 faster than eager \\(.*\\), 1 without a valid comparison, and 1 "
                                   "faster \\(.*x \\[.*\\]\\) on a machine that was not quiet, and how much .*"));
}

TEST(BreakEvenText, IsNotCertainWhereTheIntervalIsTheReason) {
  const auto text = [](double graph, double noise) {
    const Json run = testing::analysed_run({pair("a", 1e-3, graph)}, {"standard", 6, 6, noise, 0.001, 5});
    const Json& cell = run["cells"][0];
    const std::string said = break_even_text(Comparison(cell["comparisons"][0]).break_even());
    EXPECT_THAT(break_even_chart(cell), HasSubstr(said.substr(0, said.find(' ', 4))));
    for (const std::string& view : {render_table(run, {false, 200}), render_markdown(run), render_html(run)}) {
      EXPECT_THAT(view, HasSubstr(said.substr(0, said.find(" ["))));
    }
    return said;
  };
  EXPECT_EQ(text(0.85e-3, 0.2), "not certain");
  EXPECT_EQ(text(1.5e-3, 0.01), "not reached");
  EXPECT_THAT(text(5e-4, 0.01), HasSubstr("calls ["));
}

TEST(Why, NamesCausesSharesAndCounts) {
  const std::string reason = why(testing::analysed_run({SampleCell{}})["cells"][0]);
  EXPECT_THAT(reason, ::testing::MatchesRegex("dispatch, tape, allocation save 2[01]\\.. us .6. %.; passes save "
                                              "1[01]\\.. us .3. %.; 120 -> 98 nodes; 120 -> 94 dispatches; .*"));
}

TEST(Why, OfAnInvalidCellIsTheReason) {
  Json run = sample_run();
  run["cells"][0]["validity"]["agree"] = false;
  run["cells"][0]["validity"]["reason"] = "output 0: 3 ULP";
  analyse(run);
  EXPECT_EQ(why(run["cells"][0]), "output 0: 3 ULP");
}

TEST(Metrics, AreToldOnceWhenTheyAgree) {
  Json cell = testing::analysed_run({SampleCell{}})["cells"][0];
  EXPECT_THAT(metric_lines(cell), ::testing::ElementsAre("held-out accuracy 96.9 % in every arm"));
  cell["metrics"][1]["value"] = nullptr;
  EXPECT_THAT(metric_lines(cell),
              ::testing::ElementsAre("held-out accuracy 96.9 % (eager), not measured (replay), 96.9 % (graph)"));
}

TEST(Cautions, AreSaidWhereTheEnvironmentChoseTheKernels) {
  Json run = testing::analysed_run({SampleCell{}});
  EXPECT_THAT(cautions(run), Not(::testing::Contains(HasSubstr("OPENBLAS"))));
  run["environment"]["process"]["tuning_variables"]["OPENBLAS_CORETYPE"] = "<Has\x1b[2Jwell>";
  const std::string sentence = "OPENBLAS_CORETYPE=<Has";
  EXPECT_THAT(render_table(run, {.width = 200}), AllOf(HasSubstr(sentence), Not(HasSubstr("\x1b[2J"))));
  EXPECT_THAT(render_markdown(run), HasSubstr("OPENBLAS\\_CORETYPE=&lt;Has"));
  EXPECT_THAT(render_html(run), HasSubstr("OPENBLAS_CORETYPE=&lt;Has"));
}

TEST(Table, FitsItsWidth) {
  const Json run = testing::analysed_run({SampleCell{}, pair("日本語/模型", 1e-3, 2e-3)});
  for (const int width : {40, 70, 100, 140, 200}) {
    for (const std::string& line : lines(render_table(run, {false, width}))) {
      EXPECT_LE(display_width(line), width) << line;
    }
  }
}

TEST(Table, AlignsItsColumns) {
  const std::vector<std::string> all =
      lines(render_table(testing::analysed_run({pair("日本語/模型", 1e-3, 5e-4), pair("a", 1, 2)})));
  std::vector<int> starts;
  for (const std::string& line : all) {
    for (const char* word : {"verdict", "FASTER", "SLOWER"}) {
      if (const std::size_t at = line.find(word); at != std::string::npos) {
        starts.push_back(display_width(line.substr(0, at)));
      }
    }
  }
  ASSERT_EQ(starts.size(), 3u);
  EXPECT_TRUE(starts[0] == starts[1] && starts[1] == starts[2]);
}

TEST(Table, ColoursOnlyWhenAsked) {
  const Json run = testing::analysed_run({SampleCell{}});
  EXPECT_THAT(render_table(run), Not(HasSubstr("\x1b")));
  EXPECT_THAT(render_table(run, {true, 140}), HasSubstr("\x1b["));
  EXPECT_THAT(render_table(run), AllOf(HasSubstr("FASTER"), HasSubstr("why:"), HasSubstr("held-out accuracy 96.9 %")));
}

TEST(Markdown, HasEqualCellsInEveryRow) {
  const std::string text = render_markdown(testing::analysed_run({SampleCell{}, pair("a|b", 1e-3, 2e-3)}));
  int rows = 0;
  for (const std::string& line : lines(text)) {
    if (line.starts_with("| ") && line.find("<details>") == std::string::npos && rows < 6) {
      EXPECT_EQ(std::count(line.begin(), line.end(), '|'), 8) << line;
      ++rows;
    }
  }
  EXPECT_EQ(rows, 6);
  EXPECT_EQ(text.find("# "), 0u);
  EXPECT_THAT(text, AllOf(HasSubstr("**FASTER**"), HasSubstr("<details>"), HasSubstr("diptych run --standard")));
}

TEST(Html, IsWellFormedAndSelfContained) {
  const std::string page = render_html(testing::analysed_run({SampleCell{}, pair("a", 1e-3, 2e-3)}));
  EXPECT_EQ(markup_problem(page), "");
  EXPECT_THAT(page, Not(HasSubstr("http:")));
  EXPECT_THAT(page, Not(HasSubstr("https:")));
  EXPECT_THAT(page, Not(HasSubstr("style=\"")));
  EXPECT_LT(page.size(), 2u << 20);
}

TEST(Html, PolicyAllowsExactlyItsOwnStyleAndScript) {
  const std::string page = render_html(testing::analysed_run({SampleCell{}}));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  std::size_t checked = 0;
  for (const std::string tag : {"style", "script"}) {
    const std::size_t start = page.find("<" + tag + ">") + tag.size() + 2;
    const std::string body = page.substr(start, page.find("</" + tag + ">", start) - start);
    EXPECT_THAT(page, HasSubstr(tag + "-src 'sha256-" + sha256_base64(body) + "'"));
    ++checked;
  }
  EXPECT_EQ(checked, 2u);
}

TEST(Html, CarriesTheRunAsData) {
  Json run = testing::analysed_run({pair("</script><b>", 1e-3, 5e-4)});
  const std::string page = render_html(run);
  const std::string opening = "<script type=\"application/json\" id=\"run\">";
  const std::size_t start = page.find(opening) + opening.size();
  const std::string data = page.substr(start, page.find("</script>", start) - start);
  EXPECT_EQ(Json::parse(data), run);
}

TEST(Html, RefusesPicturesThatAct) {
  const Json run = testing::analysed_run({SampleCell{}});
  for (const char* bad :
       {"<svg onload=\"x()\"></svg>", "<svg><script>x</script></svg>", "<svg><a href=\"javascript:x\">b</a></svg>",
        "<img src=x>", "<svg></svg><b></b>", "<svg><foreignObject></foreignObject></svg>"}) {
    const std::string page = render_html(run, {{{"<bad>", bad}}});
    EXPECT_THAT(page, AllOf(Not(HasSubstr(bad)), HasSubstr("Not shown"), HasSubstr("&lt;bad&gt;")));
  }
  EXPECT_THAT(render_html(run, {{{"good", "<svg class=\"dg\"></svg>"}}}), HasSubstr("<svg class=\"dg\"></svg>"));
}

TEST(Charts, AreEmptyWithoutData) {
  Json run = sample_run();
  run["cells"][0]["processes"] = Json::array();
  analyse(run);
  const Json& cell = run["cells"][0];
  EXPECT_THAT(bars_chart(cell) + ladder_chart(cell) + rounds_chart(cell) + break_even_chart(cell), IsEmpty());
  EXPECT_EQ(markup_problem(render_html(run)), "");
}

TEST(Charts, BarsAreInProportionToTheTimes) {
  const std::string svg =
      bars_chart(testing::analysed_run({pair("a", 4e-3, 1e-3)}, {"standard", 8, 12, 1e-6, 1e-6})["cells"][0]);
  std::vector<double> widths;
  for (const std::string& value : after_each(svg, " width=\"")) {
    widths.push_back(std::stod(value));
  }
  ASSERT_EQ(widths.size(), 2u);
  EXPECT_NEAR(widths[0] / widths[1], 4, 0.01);
}

TEST(Charts, BarsBeginBehindTheNamesOfTheirArms) {
  SampleCell cell;
  cell.arms = {"eager", "eager-pipelined", "graph"};
  const std::string svg = bars_chart(testing::analysed_run({cell})["cells"][0]);
  const std::size_t at = svg.find(">eager-pipelined</text>");
  ASSERT_NE(at, std::string::npos) << svg;
  const std::size_t x = svg.rfind("<text x=\"", at);
  EXPECT_GE(std::stod(svg.substr(x + 9)), text_width("eager-pipelined", 13))
      << "it ends there, and begins in the picture";
}

TEST(Charts, EveryRoundIsADot) {
  const std::string svg = rounds_chart(testing::analysed_run({SampleCell{}}, {"standard", 5, 7})["cells"][0]);
  std::size_t dots = 0;
  for (std::size_t at = svg.find("h0"); at != std::string::npos; at = svg.find("h0", at + 1)) {
    ++dots;
  }
  EXPECT_EQ(dots, 3u * 5 * 7);
}

// WCAG 2.1, relative luminance and contrast ratio.
double luminance(const std::string& hex) {
  double parts[3];
  for (int i = 0; i < 3; ++i) {
    const double c = std::stoi(hex.substr(1 + 2 * static_cast<std::size_t>(i), 2), nullptr, 16) / 255.0;
    parts[i] = c <= 0.03928 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
}

double contrast(const std::string& a, const std::string& b) {
  const double la = luminance(a);
  const double lb = luminance(b);
  return (std::max(la, lb) + 0.05) / (std::min(la, lb) + 0.05);
}

/// The colours of a part of a style sheet, by what follows "--" and the prefix in their names.
std::map<std::string, std::string> colours_of(const std::string& theme, const std::string& prefix) {
  std::map<std::string, std::string> colours;
  for (const std::string& rest : after_each(theme, "--" + prefix)) {
    if (const std::size_t hash = rest.find(": #"); hash < rest.find(';')) {
      colours[rest.substr(0, hash)] = rest.substr(hash + 2, 7);
    }
  }
  return colours;
}

void expect_contrast(std::string css, const std::string& prefix, const std::vector<std::string>& words,
                     const std::vector<std::string>& backgrounds) {
  const std::size_t dark = css.find("prefers-color-scheme: dark");
  for (const std::string& theme : {css.substr(0, dark), css.substr(dark)}) {
    const std::map<std::string, std::string> colours = colours_of(theme, prefix);
    ASSERT_GT(colours.size(), 8u);
    for (const std::string& background : backgrounds) {
      for (const std::string& word : words) {
        EXPECT_GE(contrast(colours.at(word), colours.at(background)), 4.5) << word << " on " << background;
      }
    }
    for (const auto& [name, colour] : colours) {
      if (name != "paper" && name != "panel" && name != "scope" && !name.starts_with("marked") &&
          !(prefix.empty() && name == "line")) {
        EXPECT_GE(contrast(colour, colours.at("paper")), 3.0) << name;
      }
    }
  }
}

TEST(Colours, MeetWcagContrastInLightAndDark) {
  expect_contrast(std::string(assets::report_css()), "", {"ink", "muted", "accent"},
                  {"paper", "panel", "marked", "marked-at"});
  expect_contrast(std::string(assets::diagram_css()), "dg-", {"ink", "muted"}, {"paper", "scope"});
}

TEST(Colours, OfAProfilesPicturesHoldTextInLightAndDark) {
  const std::string css(assets::profile_css());
  const std::size_t dark = css.find("prefers-color-scheme: dark");
  for (const std::string& theme : {css.substr(0, dark), css.substr(dark)}) {
    const std::map<std::string, std::string> colours = colours_of(theme, "pf-");
    for (const char* fill : {"paper", "same", "s1", "s2", "s3", "l1", "l2", "l3", "k0", "k1", "k2", "k3", "k4"}) {
      EXPECT_GE(contrast(colours.at("ink"), colours.at(fill)), 4.5) << fill;
    }
    EXPECT_GE(contrast(colours.at("muted"), colours.at("paper")), 4.5);
    for (const char* line : {"a0", "a1", "a2", "a3"}) {
      EXPECT_GE(contrast(colours.at(line), colours.at("paper")), 3) << line;
    }
  }
}

TEST(Evidence, StandsInThePage) {
  Json run = sample_run();
  for (Json& process : run["cells"][0]["processes"]) {
    process["arms"][2]["warmup_seconds"] = std::vector<double>(64, 7e-5);
  }
  analyse(run);
  const std::string page = render_html(run);
  EXPECT_EQ(markup_problem(page), "");
  for (const char* part : {"<summary>Evidence", "sign interval", "autocorrelation", "steady after", "flat: 8"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
}

TEST(Evidence, DisagreementIsSaidAndNothingElse) {
  Json run = testing::analysed_run({SampleCell{}});
  EXPECT_THAT(render_markdown(run), Not(HasSubstr("about 1")));
  Json& comparison = run["cells"][0]["comparisons"][1];
  comparison["evidence"]["sign_interval"] = {{"low", 0.9}, {"high", 1.5}, {"level", 0.95}};
  EXPECT_THAT(intervals_disagree(comparison),
              AllOf(HasSubstr("graph: the t interval [1."), HasSubstr("and the sign interval [0.9, 1.5] lie")));
  EXPECT_THAT(render_markdown(run), HasSubstr("sign interval"));
  EXPECT_EQ(markup_problem(render_html(run)), "");
  comparison["evidence"] = nullptr;
  EXPECT_EQ(intervals_disagree(comparison), "");
  EXPECT_EQ(intervals_disagree(Json()), "");
}

}  // namespace
}  // namespace diptych::reports
