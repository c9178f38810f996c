// The page as it looks on a screen of 1,400 pixels and on paper. Widths are computed from the page's own text and style
// sheet: what a browser shows can't be wider.

#include <map>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/analyse.h"
#include "reports/assets.h"
#include "reports/diagrams/diagram.h"
#include "reports/html/html.h"
#include "reports/text/plain_svg.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::markup_problem;
using ::testing::Not;
using testing::sample_run;
using testing::SampleCell;
using Json = nlohmann::json;

/// A ladder with every rung, all columns filled, and the split of eager.
Json wide_run() {
  const SampleCell cell{"attention/sdpa-causal-2048",
                        {"eager", "replay", "+plan", "+simplify", "+fuse", "+epilogue", "graph"},
                        {1.2345e-2, 1.1e-2, 1.05e-2, 1.01e-2, 9.1e-3, 8.2e-3, 8.1e-3},
                        {0, 1e-3, 2e-3, 3e-3, 4e-3, 5e-3, 6e-3}};
  Json run = sample_run({cell}, {"standard", 8, 12, 0.05, 0.05, 1});
  Json& first = run["cells"][0];
  for (Json& arm : first["arms"]) {
    arm["cause"] = "memory planning: what allocation cost between its ops, with a tape where gradients are asked for";
    arm["exact"]["planned_peak_bytes"] = 123'456'789;
  }
  first["work"] = {{"flops", 1e9}, {"op_bytes", 3e9}, {"compulsory_bytes", 1e8}};
  const Json limits = {{"fma_flops_per_second", 1e11},
                       {"bandwidth", {{{"level", "memory"}, {"size_bytes", nullptr}, {"bytes_per_second", 1e10}}}}};
  for (Json& process : first["processes"]) {
    process["limits"] = {{"before", limits}, {"after", limits}};
  }
  analyse(run);
  Json& split = run["cells"][0]["ladder"]["split"];
  split = {{"within", true}, {"kinds", Json::array()}};
  Json& kind = split["kinds"].emplace_back(Json{{"op", "scaled_dot_product_attention"}, {"calls", 12345}});
  for (const char* part :
       {"dispatch_seconds", "inference_seconds", "allocation_seconds", "tape_seconds", "program_seconds",
        "kernel_seconds", "replay_overhead_seconds", "explained_seconds", "rung_seconds", "residual_seconds"}) {
    split[part] = {{"estimate", 1.2345e-4}, {"low", -1.1111e-4}, {"high", 1.3333e-4}, {"level", 0.95}};
    kind[part] = 1.2345e-4;
  }
  return run;
}

struct CellText {
  std::string css, text, note;
};
using Table = std::vector<std::vector<CellText>>;

std::string without_tags(const std::string& html) {
  static const std::regex tags("<[^>]*>");
  static const std::regex entities("&[#a-z0-9]+;");
  return std::regex_replace(std::regex_replace(html, tags, ""), entities, "x");
}

std::vector<Table> tables_of(const std::string& page) {
  static const std::regex cells(R"re(<t[hd]([^>]*)>(.*?)</t[hd]>)re");
  static const std::regex note("<small>(.*?)</small>");
  std::vector<Table> tables;
  for (std::size_t at = page.find("<table"); at != std::string::npos; at = page.find("<table", at + 1)) {
    const std::string body = page.substr(at, page.find("</table>", at) - at);
    Table& table = tables.emplace_back();
    for (std::size_t row = body.find("<tr>"); row != std::string::npos; row = body.find("<tr>", row + 1)) {
      const std::string line = body.substr(row, body.find("</tr>", row) - row);
      table.emplace_back();
      for (std::sregex_iterator cell(line.begin(), line.end(), cells), end; cell != end; ++cell) {
        const std::string content = (*cell)[2];
        std::smatch small;
        const bool has_note = std::regex_search(content, small, note);
        table.back().push_back(
            {(*cell)[1], without_tags(std::regex_replace(content, note, "")), has_note ? without_tags(small[1]) : ""});
      }
    }
  }
  return tables;
}

/// The last declaration of a property in the rules of `selector`, in the sheet or in its part for print.
std::string declared(const std::string& css, const std::string& selector, const std::string& property) {
  const std::regex rule(R"re(([^{}]*)\{([^{}]*)\})re");
  std::string value;
  for (std::sregex_iterator match(css.begin(), css.end(), rule), end; match != end; ++match) {
    const std::string selectors =
        "," + std::regex_replace(match->str(1), std::regex(R"(\s*,\s*|^\s+|\s+$)"), ",") + ",";
    std::smatch found;
    const std::string body = match->str(2);
    if (selectors.find("," + selector + ",") != std::string::npos &&
        std::regex_search(body, found, std::regex("(^|[; ])" + property + R"(:\s*([^;]+))"))) {
      value = found[2];
    }
  }
  return value;
}
double pixels(const std::string& value) {
  EXPECT_NE(value, "");
  return std::stod(value);
}

struct Metrics {
  bool wraps = false;       ///< cells break between words
  bool note_below = false;  ///< a note stands under its value, not behind it
  double size = 14, note_size = 12, padding = 18, least_wrapped = 14 * 14;
};
constexpr double kEm = 0.62;  // DejaVu Sans' average advance, in figures and small letters

double longest_word(const std::string& text) {
  std::istringstream in(text);
  std::size_t longest = 0;
  for (std::string word; in >> word;) {
    longest = std::max(longest, word.size());
  }
  return static_cast<double>(longest);
}

/// The smallest width that the table can have.
double width_of(const Table& table, const Metrics& metrics) {
  std::map<std::size_t, double> columns;
  for (std::size_t row = 0; row < table.size(); ++row) {
    for (std::size_t i = 0; i < table[row].size(); ++i) {
      const CellText& cell = table[row][i];
      const bool breaks = metrics.wraps || row == 0 || cell.css.find("wrap") != std::string::npos;
      const auto measure = [&](const std::string& text, double size) {
        return kEm * size * (breaks ? longest_word(text) : static_cast<double>(text.size()));
      };
      double width = measure(cell.text, metrics.size);
      const double note = measure(cell.note, metrics.note_size);
      width = metrics.note_below || breaks ? std::max(width, note) : width + 6 + note;
      if (cell.css.find("wrap") != std::string::npos) {
        width = metrics.least_wrapped;  // overflow-wrap: anywhere
      }
      columns[i] = std::max(columns[i], width + metrics.padding);
    }
  }
  double sum = 0;
  for (const auto& [index, width] : columns) {
    sum += width;
  }
  return sum;
}

std::string sheet_for_screens(const std::string& css) {
  return std::regex_replace(css.substr(0, css.find("@media print")),
                            std::regex(R"re(@media[^{]*\{[^{}]*(\{[^{}]*\}[^{}]*)*\})re"), "");
}
std::string sheet_for_print(const std::string& css) {
  const std::size_t start = css.find("{", css.find("@media print")) + 1;
  return css.substr(start, css.rfind('}') - start);
}

const Table& table_with(const std::vector<Table>& tables, const std::string& column) {
  for (const Table& table : tables) {
    for (const CellText& head : table.at(0)) {
      if (head.text == column) {
        return table;
      }
    }
  }
  ADD_FAILURE() << "no table has a column " << column;
  return tables.at(0);
}

TEST(Pages, EveryColumnOfTheLadderFitsAScreenOf1400Pixels) {
  const std::string css(assets::report_css());
  const std::string screen = sheet_for_screens(css);
  Metrics metrics;
  metrics.note_below = declared(screen, "td small", "display") == "block";
  metrics.size = pixels(declared(screen, "table", "font-size"));
  metrics.note_size = pixels(declared(screen, "td small", "font-size"));
  metrics.padding = pixels(declared(screen, "details td", "padding-right"));
  metrics.least_wrapped = metrics.size * pixels(declared(screen, "td.wrap", "min-width"));
  const double room = pixels(declared(screen, "main", "max-width")) - 2 * 32;
  const std::vector<Table> tables = tables_of(render_html(wide_run()));
  EXPECT_EQ(table_with(tables, "of limit").at(0).size(), 10U);
  EXPECT_LE(width_of(table_with(tables, "of limit"), metrics), room);
  EXPECT_LE(width_of(table_with(tables, "kernel"), metrics), room);
  // On a smaller screen the table scrolls by itself, and the page doesn't.
  EXPECT_EQ(declared(screen, ".scroll", "overflow-x"), "auto");
}

TEST(Pages, NothingOfATableIsCutInPrint) {
  const std::string css(assets::report_css());
  const std::string print = sheet_for_print(css);
  EXPECT_EQ(declared(print, ".scroll", "overflow"), "visible") << "paper doesn't scroll";
  EXPECT_EQ(declared(print, "td", "white-space"), "normal");
  EXPECT_EQ(declared(print, "details td", "white-space"), "normal");
  EXPECT_EQ(declared(print, ".verdict", "white-space"), "normal");
  Metrics metrics;
  metrics.wraps = declared(print, "td", "white-space") == "normal";
  metrics.size = pixels(declared(print, "table", "font-size"));
  metrics.note_size = metrics.size;
  metrics.padding = 6;
  metrics.least_wrapped = metrics.size * pixels(declared(print, "td.wrap", "min-width"));
  const double paper = (210 - 2 * 12) / 25.4 * 96;  // A4 with margins of 12 mm
  const std::vector<Table> tables = tables_of(render_html(wide_run()));
  for (const char* column : {"verdict", "break-even", "of limit", "kernel", "because"}) {
    EXPECT_LE(width_of(table_with(tables, column), metrics), paper) << column;
  }
}

TEST(Pages, TheEnvironmentIsFolded) {
  Json run = testing::analysed_run({SampleCell{}});
  for (int i = 0; i < 200; ++i) {
    run["environment"]["build"]["packages"].push_back({{"name", fmt::format("package{}", i)}, {"version", "1"}});
  }
  const std::string page = render_html(run);
  EXPECT_EQ(markup_problem(page), "");
  const std::size_t heading = page.find("<h2>Environment</h2>");
  const std::size_t fold = page.find("<details><summary>", heading);
  ASSERT_NE(fold, std::string::npos) << "closed at first";
  EXPECT_LT(fold, page.find("Example CPU", heading));
  EXPECT_GT(page.find("</details>", fold), page.find("package199", heading));
  EXPECT_THAT(page.substr(fold, 200), HasSubstr("205 entries")) << "how much is in there";
  EXPECT_LT(page.find("diptych run --standard", heading), fold) << "the command isn't hidden";
}

TEST(Pages, TextOfAPictureIsHarmlessWhateverItSays) {
  Diagram diagram;
  diagram.title = "javascript:alert(1)";
  for (const char* name :
       {"javascript:", "<script>", "a onload=x", "<use", "url(x)", "@import", "<!ENTITY", "data:text/html,x"}) {
    diagram.nodes.push_back({name, {name, name}, NodeClass::other, {name}, name});
  }
  const std::string svg = render_svg(diagram);
  EXPECT_TRUE(is_plain_svg(svg));
  const std::string page = render_html(testing::analysed_run({SampleCell{}}), {{{"a model", svg}}});
  EXPECT_THAT(page, AllOf(HasSubstr(">javascript:</text>"), Not(HasSubstr("Not shown"))));
  EXPECT_EQ(markup_problem(page), "");
}

TEST(Pages, WhatActsInAPictureIsRefused) {
  for (const char* bad : {"<svg><a href=\"javascript:x\">b</a></svg>",
                          "<svg><g xlink:href=\"http://x\"></g></svg>",
                          "<svg><text HREF=\"x\">b</text></svg>",
                          "<svg><g onclick=\"x\"></g></svg>",
                          "<svg><g ONCLICK=\"x\"></g></svg>",
                          "<svg\tonload=\"x\"></svg>",
                          "<svg><style>@import 'x';</style></svg>",
                          "<svg><rect fill=\"url(http://x)\"/></svg>",
                          "<svg><style>a{b:url(x)}</style></svg>",
                          "<svg><g style=\"x\"></g></svg>",
                          "<svg><!-- x --></svg>",
                          "<svg><![CDATA[x]]></svg>",
                          "<svg><?xml x?></svg>",
                          "<svg><SCRIPT>x</SCRIPT></svg>",
                          "<svg><animate/></svg>",
                          "<svg><g></svg>",
                          "<svg></svg><svg></svg>",
                          "<svg><g class=x></g></svg>",
                          "<svg",
                          "",
                          "text",
                          "<svg><style>a</style",
                          "<svg><g class=\"a\" onload=x></g></svg>"}) {
    EXPECT_FALSE(is_plain_svg(bad)) << bad;
  }
  for (const char* good :
       {"<svg></svg>", "<svg class=\"dg\"></svg>\n", "<svg aria-label=\"url(x) javascript:\"><g/></svg>",
        "<svg><title>on a=1 href=2</title></svg>"}) {
    EXPECT_TRUE(is_plain_svg(good)) << good;
  }
}

Diagram chain(int ops) {
  Diagram diagram;
  diagram.nodes.push_back({"x", {"x"}, NodeClass::input});
  for (int i = 0; i < ops; ++i) {
    diagram.nodes.push_back({std::to_string(i), {"tanh"}, NodeClass::elementwise});
  }
  diagram.nodes.push_back({"y", {"y"}, NodeClass::output});
  return diagram;
}

TEST(Pages, APictureOfVeryManyNodesIsLinked) {
  const Json run = testing::analysed_run({SampleCell{}});
  DiagramOptions plainly;
  plainly.cpu_seconds = 0;
  const NamedSvg fits = graph_picture("gpt/mini", render_svg(chain(160), plainly), "graphs/gpt-mini.svg");
  EXPECT_THAT(render_html(run, {{fits}}), AllOf(HasSubstr("<svg xmlns"), Not(HasSubstr("Not shown"))));
  const NamedSvg large = graph_picture("gpt/mini", render_svg(chain(161), plainly), "graphs/gpt-mini.svg");
  const std::string page = render_html(run, {{large}});
  EXPECT_EQ(markup_problem(page), "");
  EXPECT_THAT(
      page, AllOf(HasSubstr("gpt/mini: the graph after all passes"), HasSubstr("Not shown here: 161 ops are more than"),
                  HasSubstr("<a href=\"graphs/gpt-mini.svg\">graphs/gpt-mini.svg</a>"), Not(HasSubstr("<svg xmlns"))));
}

}  // namespace
}  // namespace diptych::reports
