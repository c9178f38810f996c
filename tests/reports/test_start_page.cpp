// The page of a folder of runs: what it says of known histories, its links, and names that are chosen by others.

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/html/links.h"
#include "reports/html/start_page.h"
#include "reports/views/history_views.h"
#include "tests/reports/history_runs.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::AllOf;
using testing::dated_run;
using ::testing::HasSubstr;
using testing::history_of;
using ::testing::Not;

std::string page_of(const History& history) {
  const std::string page = render_start_page(history);
  EXPECT_EQ(testing::markup_problem(page), "");
  return page;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(StartPage, SaysWhatChangedFirst) {
  std::vector<Json> runs;
  for (int day = 0; day < 8; ++day) {
    runs.push_back(dated_run(day, day < 5 ? 1 : 1.2));
  }
  History history = history_of(runs);
  history.left_out = {{"half/run.json", "ends in the middle"}};
  const std::string page = page_of(history);
  EXPECT_THAT(page,
              AllOf(HasSubstr("<h1>8 runs from 2026-01-01 to 2026-01-08 on one machine: of 3 cells, 3 are slower"),
                    HasSubstr("<code>diptych report out/r4 out/r5</code>"), HasSubstr("default-src 'none'"),
                    HasSubstr("half/run.json"), HasSubstr("ends in the middle"), HasSubstr("REGRESSED")));
  for (const auto& [before, after] : {std::pair("What to do next", "<h2>Cells"), std::pair("<h2>Cells", "<h2>Runs"),
                                      std::pair("<h2>Runs", "<h2>Machines"), std::pair("<h2>Machines", "<h2>Left")}) {
    EXPECT_LT(page.find(before), page.find(after));
  }
  EXPECT_EQ(occurrences(page, "data-filter="), 2U) << "cells and runs";
  EXPECT_EQ(occurrences(page, "class=\"sortable\""), 2U);
  EXPECT_THAT(page, HasSubstr("href=\"r5/report.html\""));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(page, AllOf(HasSubstr("href=\"#cell-" + std::to_string(i) + "\""),
                            HasSubstr("<div id=\"cell-" + std::to_string(i) + "\"><details>")));
  }
  EXPECT_EQ(occurrences(page, "role=\"img\""), 6U) << "a small picture and a large one of each cell";
  EXPECT_THAT(page, HasSubstr("aria-label=\"8 runs, from ")) << "what a reader of screens hears of a picture";
}

TEST(StartPage, LinksOnlyReportsThatAreThere) {
  History history = history_of({dated_run(0), dated_run(1)});
  for (RunOfHistory& run : history.runs) {
    run.report.clear();
  }
  const std::string page = page_of(history);
  EXPECT_THAT(page, AllOf(Not(HasSubstr("report.html\"")), HasSubstr("no report.html")));
}

TEST(StartPage, IsBoundedWhateverTheHistory) {
  std::vector<Json> runs;
  const testing::SampleSize small{"quick", 2, 2};
  for (int day = 0; day < 90; ++day) {
    runs.push_back(dated_run(day, 1, small));
  }
  const std::string page = page_of(history_of(runs));
  EXPECT_THAT(page, HasSubstr("30 older runs are not on this page"));
  EXPECT_THAT(page, HasSubstr("\"points_left_out\":30"));
}

// Without the script the page has everything but filters, sorting and copying.
TEST(StartPage, NothingIsHiddenFromReadersWithoutScript) {
  const std::string page = page_of(history_of({dated_run(0), dated_run(1, 1.3)}));
  const std::size_t body = page.find("</header>");
  EXPECT_THAT(page.substr(body, page.find("<script") - body),
              AllOf(Not(HasSubstr("hidden")), Not(HasSubstr("<template")), Not(HasSubstr("<button"))));
}

TEST(RelativeLink, IsAPathWhateverTheName) {
  EXPECT_EQ(relative_link("a-b_c.d~1/report.html"), "a-b_c.d~1/report.html");
  EXPECT_EQ(relative_link("../out/x y"), "../out/x%20y");
  EXPECT_EQ(relative_link("javascript:alert(1)"), "javascript%3Aalert%281%29");
  EXPECT_EQ(relative_link("a?b#c&d\"'<"), "a%3Fb%23c%26d%22%27%3C");
  EXPECT_EQ(relative_link("\xC3\xA4\n%"), "%C3%A4%0A%25");
  EXPECT_EQ(relative_link("//elsewhere/x"), ".//elsewhere/x");
}

/// A document with `to` in the place of `from`, in all texts and keys.
Json renamed(const Json& document, const std::string& from, const std::string& to) {
  const auto text = [&](std::string before) {
    for (std::size_t at = before.find(from); at != std::string::npos; at = before.find(from, at + to.size())) {
      before.replace(at, from.size(), to);
    }
    return before;
  };
  if (document.is_string()) {
    return text(document.get<std::string>());
  }
  if (!document.is_structured()) {
    return document;
  }
  Json result = document.is_array() ? Json::array() : Json::object();
  for (const auto& [key, value] : document.items()) {
    document.is_array() ? result.push_back(renamed(value, from, to))
                        : void(result[text(key)] = renamed(value, from, to));
  }
  return result;
}

TEST(StartPage, HostileNamesStayText) {
  const std::string placeholder = "a name from outside";
  testing::SampleCell cell;
  cell.workload = placeholder;
  cell.arms = {"eager", placeholder, "graph"};
  std::vector<Json> harmless;  // analysed once: that takes most of the time
  for (int day = 0; day < 7; ++day) {
    Json run = testing::analysed_run({cell}, {.seed = static_cast<std::uint64_t>(day) + 1});
    run["name"] = placeholder;
    run["environment"]["cpu"]["model"] = day < 6 ? placeholder : placeholder + "2";
    run["environment"]["os"]["kernel"] = placeholder;
    run["environment"]["build"] = {{"git_sha", placeholder}, {"git_dirty", day % 2 == 0}, {"compiler", placeholder}};
    run["numerics"] = day < 5 ? placeholder : "exact";
    run["cells"][0]["title"] = placeholder;
    run["cells"][0]["validity"]["agree"] = day != 4;
    run["cells"][0]["validity"]["reason"] = placeholder;
    harmless.push_back(run);
  }
  for (const std::string& name : testing::hostile_names()) {
    std::vector<Json> runs;
    for (const Json& run : harmless) {
      runs.push_back(renamed(run, placeholder, name));
    }
    History history = history_of(runs);
    history.folder = name;
    history.looked_at = name;
    history.left_out = {{name, name}};
    for (RunOfHistory& run : history.runs) {
      run.folder = run.report = name;
    }
    const std::string page = page_of(history);
    EXPECT_EQ(occurrences(page, "<script"), 2U);
    EXPECT_THAT(page, AllOf(Not(HasSubstr("<script>alert")), Not(HasSubstr("href=\"javascript:"))));
    EXPECT_EQ(testing::text_problem(render_history(history)), "");
    for (const Suggestion& next : history_next(history)) {
      EXPECT_EQ(testing::text_problem(next.command), "");
    }
  }
}

}  // namespace
}  // namespace diptych::reports
