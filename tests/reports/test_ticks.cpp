// Ticks of axes, whatever the ends: from files they may be any number.

#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/analysis/analyse.h"
#include "reports/html/html.h"
#include "reports/text/svg.h"
#include "tests/reports/sample_run.h"
#include "tests/reports/well_formed.h"

namespace diptych::reports {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::vector<double>& ends() {
  static const std::vector<double> all = {0,
                                          5e-324,
                                          1e-323,
                                          1e-320,
                                          2.2e-308,
                                          1e-300,
                                          1e-15,
                                          1,
                                          std::nextafter(1, 2),
                                          1 + 1e-15,
                                          9007199254740993.0,
                                          1e300,
                                          std::nextafter(1e300, kInfinity),
                                          1.7e308,
                                          std::numeric_limits<double>::max(),
                                          kInfinity,
                                          std::nan(""),
                                          -5e-324,
                                          -1,
                                          -1.7e308,
                                          -kInfinity};
  return all;
}

TEST(Ticks, AreRoundAndWithinTheirEnds) {
  EXPECT_THAT(round_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(round_ticks(-0.3, 1.1, 3), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(decade_ticks(0.5, 1000), ElementsAre(0.1, 1, 10, 100, 1000));
  EXPECT_THAT(decade_ticks(1, 0.5), IsEmpty());
}

TEST(Ticks, AreFewWhateverTheEnds) {
  for (const double from : ends()) {
    for (const double to : ends()) {
      for (const int count : {1, 4, 8}) {
        const std::vector<double> ticks = round_ticks(from, to, count);
        EXPECT_LE(ticks.size(), static_cast<std::size_t>(count) + 2) << from << " to " << to;
        for (std::size_t i = 0; i < ticks.size(); ++i) {
          EXPECT_TRUE(std::isfinite(ticks[i])) << from << " to " << to;
          EXPECT_TRUE(i == 0 || ticks[i] > ticks[i - 1]) << from << " to " << to;
        }
      }
      EXPECT_LE(decade_ticks(from, to).size(), 617U) << from << " to " << to;
    }
  }
}

// Files with such figures are refused: the charts don't rely on it.
TEST(Ticks, ChartsOfImpossibleFiguresAreDrawn) {
  const std::vector<double> figures = {5e-324, 1e-300, 1e-15, 1, 1e300, 1.7e308};
  for (const double low : figures) {
    for (const double high : figures) {
      nlohmann::json run = testing::analysed_run();
      nlohmann::json& cell = run["cells"][0];
      cell["processes"][0]["rounds"][0]["seconds"]["eager"] = low;
      cell["processes"][1]["rounds"][0]["seconds"]["graph"] = high;
      cell["arms"][0]["seconds"] = {{"estimate", low}, {"low", low}, {"high", high}, {"level", 0.95}};
      cell["arms"][2]["compile_seconds"] = {{"estimate", high}, {"low", nullptr}, {"high", nullptr}, {"level", 0.95}};
      cell["limits"] = {{"fma_flops_per_second", low},
                        {"arithmetic_intensity", high},
                        {"flops", low},
                        {"bytes", high},
                        {"level", "L1"},
                        {"bound", "memory"},
                        {"bandwidth", {{{"level", "L1"}, {"size_bytes", 32768}, {"bytes_per_second", high}}}}};
      const std::string page = render_html(run);
      EXPECT_EQ(testing::markup_problem(page), "") << low << " " << high;
      EXPECT_LT(page.size(), 2'000'000U) << low << " " << high;
    }
  }
}

}  // namespace
}  // namespace diptych::reports
