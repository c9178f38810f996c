// How close to the machine's limits, from known limits.

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/analyse.h"
#include "reports/analysis/roofline.h"
#include "reports/html/charts.h"
#include "reports/html/html.h"
#include "reports/run/schema.h"
#include "reports/views/ladder_table.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::sample_run;
using testing::SampleCell;
using Json = nlohmann::json;

/// 100 GFLOP/s; L1 of 1000 bytes at 200 GB/s, memory at 10 GB/s.
Json probe(double factor = 1) {
  return {{"fma_flops_per_second", factor * 100e9},
          {"bandwidth",
           {{{"level", "L1"}, {"size_bytes", 1000}, {"bytes_per_second", factor * 200e9}},
            {{"level", "memory"}, {"size_bytes", nullptr}, {"bytes_per_second", factor * 10e9}}}}};
}

/// eager takes 100 us, graph 50.
Json run_with(double flops, double bytes) {
  SampleCell cell{"a", {"eager", "graph"}, {1e-4, 5e-5}, {0, 1e-3}};
  Json run = sample_run({cell}, {"standard", 3, 4, 0, 0, 1});
  run["cells"][0]["work"] = {{"flops", flops}, {"op_bytes", 3 * bytes}, {"compulsory_bytes", bytes}};
  for (Json& process : run["cells"][0]["processes"]) {
    process["limits"] = {{"before", probe()}, {"after", probe()}};
  }
  analyse(run);
  return run;
}

double share(const Json& limits, std::size_t arm) { return limits["arms"][arm]["share"]; }

// 1e6 operations at 1e11 a second are 10 us; 800 bytes come from L1 in 4 ns.
TEST(Limits, OfComputation) {
  const Json run = run_with(1e6, 800);
  EXPECT_THAT(validate(run), IsEmpty());
  const Json& limits = run["cells"][0]["limits"];
  EXPECT_EQ(limits["bound"], "compute");
  EXPECT_EQ(limits["level"], "L1");
  EXPECT_NEAR(limits["limit_seconds"].get<double>(), 1e-5, 1e-18);
  EXPECT_NEAR(limits["arithmetic_intensity"].get<double>(), 1250, 1e-9);
  EXPECT_NEAR(share(limits, 0), 0.1, 1e-9);
  EXPECT_NEAR(share(limits, 1), 0.2, 1e-9);
  EXPECT_EQ(limit_text(run["cells"][0], "graph"), "20 %");
  EXPECT_EQ(limit_text(run["cells"][0], "none"), "-");
}

// 2e5 bytes don't fit into L1: 20 us from memory, against 1 us of computation.
TEST(Limits, OfMemory) {
  const Json limits = run_with(1e5, 2e5)["cells"][0]["limits"];
  EXPECT_EQ(limits["bound"], "memory");
  EXPECT_EQ(limits["level"], "memory");
  EXPECT_NEAR(limits["limit_seconds"].get<double>(), 2e-5, 1e-18);
  EXPECT_NEAR(share(limits, 1), 0.4, 1e-9);
}

TEST(Limits, WorkWithoutOperationsHasALimitToo) {
  const Json run = run_with(0, 2e5);
  EXPECT_EQ(run["cells"][0]["limits"]["bound"], "memory");
  EXPECT_EQ(roofline_chart(run["cells"][0]), "") << "a logarithm of nothing";
}

TEST(Limits, AMomentThatWasSlowDoesNotCount) {
  Json run = run_with(1e6, 800);
  run["cells"][0]["processes"][0]["limits"]["before"] = probe(0.1);
  run["cells"][0]["processes"][1]["limits"]["after"] = probe(3);
  analyse(run);
  EXPECT_EQ(run["cells"][0]["limits"]["fma_flops_per_second"], 100e9);
}

TEST(Limits, UnknownIsNullOrHasAReason) {
  Json old = sample_run();
  analyse(old);
  EXPECT_TRUE(old["cells"][0]["limits"].is_null());
  Json scan = run_with(1e6, 800);
  scan["cells"][0]["work"] = {{"reason", "scan is control flow"}};
  analyse(scan);
  EXPECT_EQ(scan["cells"][0]["limits"], Json({{"reason", "scan is control flow"}}));
  EXPECT_THAT(validate(scan), IsEmpty());
  EXPECT_EQ(testing::markup_problem(render_html(scan)), "");
  Json broken = run_with(1e6, 800);
  for (const Json& bad : {Json(0), Json(-1), Json("fast"), Json()}) {
    for (Json& process : broken["cells"][0]["processes"]) {
      process["limits"] = {{"before", {{"fma_flops_per_second", bad}}}, {"after", bad}};
    }
    analyse(broken);
    EXPECT_TRUE(broken["cells"][0]["limits"].is_null()) << bad;
  }
}

TEST(Roofline, ShowsRoofsAndArms) {
  const Json run = run_with(1e6, 8000);
  const std::string svg = roofline_chart(run["cells"][0]);
  for (const char* part : {"peak", "L1", "memory", "eager", "graph", "FLOP per byte", "100 GFLOP/s"}) {
    EXPECT_THAT(svg, HasSubstr(part));
  }
  const std::string html = render_html(run);
  EXPECT_EQ(testing::markup_problem(html), "");
  EXPECT_THAT(html, HasSubstr("Roofline"));
  EXPECT_THAT(render_ladder(run), HasSubstr("of limit"));
}

struct TextBounds {
  std::string text;
  double left, right, top, bottom;
};

/// Of all texts of a chart, at 0.58 em a character: DejaVu Sans' average, in small letters.
std::vector<TextBounds> placed_texts(const std::string& svg) {
  const std::regex text(R"re(<text x="([-0-9.]+)" y="([-0-9.]+)" class="(\w+)" text-anchor="(\w+)">([^<]*)</text>)re");
  std::vector<TextBounds> found;
  for (std::sregex_iterator match(svg.begin(), svg.end(), text), end; match != end; ++match) {
    const double size = (*match)[3] == "num" ? 13 : 12;
    const double width = 0.58 * size * static_cast<double>((*match)[5].length());
    const double x = std::stod((*match)[1]) - ((*match)[4] == "end" ? width : (*match)[4] == "middle" ? width / 2 : 0);
    const double y = std::stod((*match)[2]);
    found.push_back({(*match)[5], x, x + width, y - 0.76 * size, y + 0.24 * size});
  }
  return found;
}

void expect_apart(const std::string& svg) {
  const std::vector<TextBounds> all = placed_texts(svg);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_GE(all[i].left, 0) << all[i].text;
    EXPECT_LE(all[i].right, 560) << all[i].text;
    EXPECT_GE(all[i].top, 0) << all[i].text;
    EXPECT_LE(all[i].bottom, 280) << all[i].text;
    for (std::size_t j = 0; j < i; ++j) {
      const bool apart = all[i].right <= all[j].left || all[j].right <= all[i].left || all[i].bottom <= all[j].top ||
                         all[j].bottom <= all[i].top;
      EXPECT_TRUE(apart) << all[i].text << " covers " << all[j].text;
    }
  }
}

TEST(Roofline, NoLabelCoversAnother) {
  SampleCell cell{"a",
                  {"eager", "replay", "+plan", "+simplify", "+fuse", "+epilogue", "graph", "eager-pipelined"},
                  {1e-4, 9.9e-5, 9.8e-5, 9.7e-5, 6e-5, 5.9e-5, 5.8e-5, 1.01e-4},
                  std::vector<double>(8, 1e-3)};
  // Caches as fast as each other, and roofs that meet; programs far to the left, in the middle and far to the right.
  for (const double intensity : {0.001, 0.05, 0.6, 2.0, 12.0, 900.0, 1e5}) {
    for (const double spread : {1.0, 1.1, 2.0}) {
      Json run = sample_run({cell}, {"standard", 3, 4, 0, 0, 1});
      const double flops = 1e6;
      run["cells"][0]["work"] = {{"flops", flops}, {"op_bytes", 3e6}, {"compulsory_bytes", flops / intensity}};
      Json levels = Json::array();
      double rate = 200e9;
      for (const char* level : {"L1", "L2", "L3", "memory"}) {
        levels.push_back({{"level", level}, {"size_bytes", nullptr}, {"bytes_per_second", rate}});
        rate /= spread;
      }
      for (Json& process : run["cells"][0]["processes"]) {
        const Json probe_of_all = {{"fma_flops_per_second", 100e9}, {"bandwidth", levels}};
        process["limits"] = {{"before", probe_of_all}, {"after", probe_of_all}};
      }
      analyse(run);
      const std::string svg = roofline_chart(run["cells"][0]);
      SCOPED_TRACE(::testing::Message() << "intensity " << intensity << ", spread " << spread);
      expect_apart(svg);
      for (const std::string& arm : cell.arms) {
        EXPECT_THAT(svg, HasSubstr(">" + arm + "</text>")) << "moved, not left out";
      }
    }
  }
}

TEST(Roofline, SurvivesExtremes) {
  for (const double flops : {1.0, 1e30}) {
    for (const double bytes : {1.0, 1e18}) {
      const Json run = run_with(flops, bytes);
      EXPECT_EQ(testing::markup_problem(render_html(run)), "") << flops << " " << bytes;
      expect_apart(roofline_chart(run["cells"][0]));
    }
  }
}

}  // namespace
}  // namespace diptych::reports
