// Names in a run are chosen by users, models and files. Random ones go through every view; none may act on a terminal,
// a browser, a code host or a parser.

#include <algorithm>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/analyse.h"
#include "reports/diagrams/diagram.h"
#include "reports/history/reader.h"
#include "reports/html/html.h"
#include "reports/html/start_page.h"
#include "reports/run/run_file.h"
#include "reports/run/schema.h"
#include "reports/text/text.h"
#include "reports/views/explanation.h"
#include "reports/views/history_views.h"
#include "reports/views/markdown.h"
#include "reports/views/profile_views.h"
#include "reports/views/table.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Json = nlohmann::json;

class Names {
 public:
  explicit Names(std::uint64_t seed) : random_(seed) {}

  std::string operator()() {
    static const std::vector<std::string> pieces = {"<script>alert(1)</script>",
                                                    "</script>",
                                                    "<img src=x onerror=alert(1)>",
                                                    "\" onmouseover=\"x",
                                                    "' x='",
                                                    "-->",
                                                    "]]>",
                                                    "&lt;",
                                                    "&#60;script>",
                                                    "|",
                                                    "`",
                                                    "```",
                                                    "\n",
                                                    "\r\n# head",
                                                    "\x1b[2J",
                                                    "\x1b]0;t\x07",
                                                    "\xC2\x9B\x33\x31m",
                                                    "\xE2\x80\xAE",
                                                    "\xFF",
                                                    "\xC0\xBC",
                                                    "\xED\xA0\x80",
                                                    "\xEF\xBF\xBE",
                                                    "${x}",
                                                    "%s%n",
                                                    "\\",
                                                    "\\u003c",
                                                    "@all",
                                                    "#1",
                                                    "javascript:x",
                                                    "</details>",
                                                    "</style>",
                                                    "日本",
                                                    "e\xCC\x81",
                                                    "{\"a\":1}",
                                                    "\\N",
                                                    std::string(1, '\0'),
                                                    std::string(300, 'A')};
    std::string name;
    const std::size_t count = 1 + random_() % 4;
    for (std::size_t i = 0; i < count; ++i) {
      if (random_() % 3 == 0) {
        for (std::size_t k = 0; k < 8; ++k) {
          name.push_back(static_cast<char>(random_() % 256));
        }
      } else {
        name += pieces[random_() % pieces.size()];
      }
    }
    return name + std::to_string(counter_++);  // arms need different names
  }

 private:
  std::mt19937_64 random_;
  int counter_ = 0;
};

/// Of a profile of three arms.
Json hostile_pictures(Names& name) {
  Json frames = Json::array();
  for (const auto& [depth, kind] : {std::pair(0, "call"), {1, "module"}, {2, "op"}, {1, "outside"}}) {
    frames.push_back({{"name", name()}, {"kind", kind}, {"depth", depth}, {"seconds", {1e-6, 2e-6, 1e-6}}});
  }
  const Json holder = {{"op", name()}, {"shape", name()}, {"scopes", Json::array({name(), name()})},
                       {"modules", 3}, {"blocks", 4},     {"bytes", 100}};
  const Json block = {{"op", name()}, {"scope", name()},      {"shape", name()},   {"bytes", 100},
                      {"offset", 64}, {"from_seconds", 1e-7}, {"to_seconds", 1e-6}};
  const Json memory = {
      {"name", name()},        {"seconds", 2e-6},
      {"peak_bytes", 100},     {"peak_seconds", 1e-6},
      {"arena_bytes", 164},    {"lower_bound_bytes", 100},
      {"packed_bytes", 0},     {"timeline", Json::array({Json::array({0, 0}), Json::array({1e-6, 100})})},
      {"points_left_out", 1},  {"holders", Json::array({holder})},
      {"holders_left_out", 1}, {"arena", Json::array({block})},
      {"blocks_left_out", 1}};
  return {{"notes", Json::array({name()})},
          {"flames", {{"left_out", 1}, {"frames", frames}}},
          {"memory", Json::array({memory, memory})}};
}

Json hostile_run(std::uint64_t seed) {
  Names name(seed);
  testing::SampleCell cell;
  cell.workload = name();
  cell.arms = {"eager", name(), name()};
  Json run = testing::sample_run({cell}, {"standard", 2, 3});
  run["name"] = name();
  run["command"] = {name(), name()};
  run["environment"][name()] = {{name(), name()}, {name(), {name(), 1, nullptr}}};
  Json& first = run["cells"][0];
  for (const char* field : {"suite", "title", "unit", "reproduce"}) {
    first[field] = name();
  }
  first["validity"]["checks"] = {name(), name()};
  for (Json& arm : first["arms"]) {
    arm["description"] = name();
    arm["cause"] = name();
    arm["passes"] = {{{"name", name()}, {"nodes_before", 3}, {"nodes_after", 2}, {"seconds", 1e-6}, {"changed", true}}};
  }
  for (Json& metric : first["metrics"]) {
    metric["name"] = name();
    metric["unit"] = name();
  }
  run["why"] = {{"calls", 1000}};
  Json row = {{"name", name()}, {"kind", "ops"}, {"ops", 2}, {"saved_seconds", 2e-6}, {"share", nullptr}};
  for (const Json& arm : first["arms"]) {
    row["arms"].push_back({{"name", arm["name"]},
                           {"seconds", 1e-6},
                           {"estimate", true},
                           {"fates", {{{"fate", "fused"}, {"with", {name(), name()}}, {"pass", name()}, {"ops", 2}}}}});
  }
  first["profile"] = {{"by", "op"}, {"steps", 3}, {"arms", Json::array()}, {"rows", {row, row}}};
  for (const Json& arm : first["arms"]) {
    first["profile"]["arms"].push_back({{"name", arm["name"]}, {"seconds", 2e-6}});
  }
  first["profile"].update(hostile_pictures(name));
  if (seed % 3 == 0) {
    first["validity"]["agree"] = false;
    first["validity"]["reason"] = name();
  }
  analyse(run);
  return run;
}

class Hostile : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Hostile, JsonIsAsciiAndParsesBack) {
  const Json run = hostile_run(GetParam());
  EXPECT_THAT(validate(run), IsEmpty());
  const std::string text = to_text(run);
  for (const char c : text) {
    ASSERT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F));
  }
  // Broken UTF-8 is replaced on the first output; from then on nothing changes.
  const Json back = Json::parse(text);
  EXPECT_EQ(Json::parse(to_text(back)), back);
}

TEST_P(Hostile, HtmlStaysAPage) {
  const Json run = hostile_run(GetParam());
  Names name(GetParam() + 1);
  const std::string page = render_html(run, {{{name(), name()}}});
  EXPECT_EQ(testing::markup_problem(page), "");
  std::size_t scripts = 0;
  for (std::size_t at = page.find("<script"); at != std::string::npos; at = page.find("<script", at + 1)) {
    ++scripts;
  }
  EXPECT_EQ(scripts, 2u);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
}

TEST_P(Hostile, AHistoryStaysAPage) {
  Names name(GetParam() + 2);
  HistoryReader reader;
  for (std::uint64_t i = 0; i < 3; ++i) {
    RunOfHistory about;
    about.folder = name();
    about.report = name();
    reader.add(about, hostile_run(GetParam() + (i == 2 ? 1 : 0)));
  }
  History history = std::move(reader).finish();
  history.folder = name();
  history.looked_at = name();
  history.left_out = {{name(), name()}};
  const std::string page = render_start_page(history);
  EXPECT_EQ(testing::markup_problem(page), "");
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<img")), Not(HasSubstr("href=\"javascript:"))));
  EXPECT_EQ(testing::text_problem(render_history(history)), "");
  const std::string text = to_text(history_document(history));
  EXPECT_EQ(to_text(Json::parse(text)), text);
}

TEST_P(Hostile, MarkdownKeepsItsShape) {
  const std::string text = render_markdown(hostile_run(GetParam()));
  EXPECT_EQ(testing::text_problem(text), "");
  // The command stands in a fence that nothing inside can close: there, text is only text.
  const std::size_t fence = text.find("\n```", text.find("## Again"));
  const std::size_t line_end = text.find('\n', fence + 1);
  const std::string ticks = text.substr(fence, line_end - fence);
  const std::size_t close = text.find(ticks + "\n", line_end);
  ASSERT_NE(close, std::string::npos);
  EXPECT_EQ(text.find(ticks, close + 1), std::string::npos);
  const std::string outside = text.substr(0, fence) + text.substr(close + ticks.size());
  for (const char* bad : {"<script", "<img", "</style", "@all", "```"}) {
    EXPECT_THAT(outside, Not(HasSubstr(bad)));
  }
  std::size_t details = 0;
  for (std::size_t at = outside.find("</details>"); at != std::string::npos; at = outside.find("</details>", at + 1)) {
    ++details;
  }
  EXPECT_EQ(details, 1u);
}

TEST_P(Hostile, AnswersFitTheTerminal) {
  const Json run = hostile_run(GetParam());
  const reports::Run view(run);
  const Cell cell = view.cells()[0];
  const std::string text = render_explanation(view, cell, 1000);
  EXPECT_EQ(testing::text_problem(text), "");
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24);
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    EXPECT_LE(display_width(line), 120) << line;
  }
  EXPECT_EQ(testing::text_problem(markdown_explanation(view, cell, 1000)), "");
  const auto profile = read_profile(cell.profile());
  ASSERT_TRUE(profile);
  EXPECT_EQ(testing::text_problem(render_profile(*profile)), "");
  EXPECT_EQ(testing::text_problem(profile_csv(*profile)), "");
}

TEST_P(Hostile, TableDoesNotTouchTheTerminal) {
  const Json run = hostile_run(GetParam());
  for (const int width : {60, 140}) {
    const std::string text = render_table(run, {false, width});
    EXPECT_EQ(testing::text_problem(text), "");
    std::size_t start = 0;
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', start)) {
      EXPECT_LE(display_width(text.substr(start, end - start)), width) << text.substr(start, end - start);
      start = end + 1;
    }
  }
}

TEST_P(Hostile, DiagramStaysADrawing) {
  Names name(GetParam());
  Diagram d;
  d.title = name();
  for (int i = 0; i < 6; ++i) {
    d.nodes.push_back({name(), {name(), name()}, NodeClass::other, {name()}, name()});
    d.edges.push_back({d.nodes.front().id, d.nodes.back().id, name()});
  }
  const std::string svg = render_svg(d, {name()});
  EXPECT_EQ(testing::markup_problem(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("plain layout")));
  EXPECT_EQ(testing::text_problem(to_dot(d)), "");
}

TEST(LongNames, AreCutOnThePageAndWholeInItsData) {
  const std::string longer(100'000, 'n');
  Json run = testing::sample_run({{longer, {"eager", longer + "1", longer + "2"}}}, {"standard", 2, 3});
  run["name"] = longer;
  run["environment"][longer] = longer;
  run["cells"][0]["arms"][1]["description"] = longer;
  analyse(run);
  const std::string page = render_html(run, {});
  const std::size_t data = page.find("<script type=\"application/json\"");
  ASSERT_NE(data, std::string::npos);
  const std::string shown = page.substr(0, data);
  EXPECT_LT(shown.size(), 200'000U);
  EXPECT_THAT(shown, HasSubstr("nnn1<"));
  EXPECT_THAT(shown, HasSubstr("nnn2<"));  // two names that differ at their ends stay two
  EXPECT_THAT(shown, Not(HasSubstr(std::string(2001, 'n'))));
  EXPECT_THAT(page.substr(data), HasSubstr(longer + "2"));
}

INSTANTIATE_TEST_SUITE_P(Seeds, Hostile, ::testing::Range<std::uint64_t>(0, 60));

}  // namespace
}  // namespace diptych::reports
