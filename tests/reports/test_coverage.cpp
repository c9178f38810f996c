// Does the interval that ships cover the truth as often as it says? On data like timings, not only on normal data.
// DIPTYCH_LONG=1 prints the table of docs/measurement.md (about three minutes).

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reports/gate/false_positive.h"
#include "reports/statistics/statistics.h"
#include "tests/reports/coverage.h"

namespace diptych::reports::testing {
namespace {

bool is_long() { return std::getenv("DIPTYCH_LONG") != nullptr; }

void expect_in_range(const DataKind& kind, double covered, int processes) {
  // What is out of range is more skewed than a few processes can show; the documentation says by how much.
  EXPECT_GE(covered, kind.within_range ? 0.93 : 0.90) << kind.name << ", " << processes << " processes";
  EXPECT_LE(covered, 0.97) << kind.name << ", " << processes << " processes";
}

TEST(Coverage, OfTheShippedIntervalIsBetween93And97Percent) {
  for (const DataKind& kind : data_kinds()) {
    for (const auto& [processes, rounds] : {std::pair{8, 12}, {12, 10}}) {
      const Coverage found = coverage(kind, processes, rounds, 5000, 0, 42);
      RecordProperty(kind.name, std::to_string(found.shipped));
      expect_in_range(kind, found.shipped, processes);
      EXPECT_GE(found.shipped, found.t) << "it is never narrower than Student's";
    }
  }
  EXPECT_LT(coverage(data_kinds()[0], 8, 12, 5000, 0, 42).widening, 1.16) << "ordinary data pays little for it";
}

TEST(Coverage, LongTable) {
  if (!is_long()) {
    GTEST_SKIP() << "set DIPTYCH_LONG=1 to print the table";
  }
  fmt::print("| data | processes x rounds | shipped | (width by t's) | t | sign | bootstrap |\n");
  fmt::print("|---|---|--:|--:|--:|--:|--:|\n");
  for (const DataKind& kind : data_kinds()) {
    for (const auto& [processes, rounds] : {std::pair{3, 6}, {8, 12}, {12, 10}, {30, 20}}) {
      const Coverage c = coverage(kind, processes, rounds, 20000, 500, 7);
      const std::string sign = c.sign > 0 ? fmt::format("{:.1f}", 100 * c.sign) : "-";
      fmt::print("| {} | {} x {} | {:.1f} | {:.2f} | {:.1f} | {} | {:.1f} |\n", kind.name, processes, rounds,
                 100 * c.shipped, c.widening, 100 * c.t, sign, 100 * c.bootstrap);
      if (processes > 3) {  // a quick run has no verdict
        expect_in_range(kind, c.shipped, processes);
      }
    }
  }
}

struct GateRates {
  RateBound alarms;       // of A/A families, any REGRESSED or IMPROVED
  double found = 0;       // share of families in which the one cell that is 5 % slower is REGRESSED
  double detectable = 0;  // mean over families, of that cell
};

// Families of twelve cells of twelve processes, judged as they are and with the first cell 5 % slower.
GateRates gate_rates(const DataKind& kind, const ChangeRule& rule, int families) {
  Random random(23);
  CellState quiet;
  quiet.agree = true;
  const std::vector<CellState> states(12, quiet);
  GateRates rates;
  int alarms = 0;
  for (int f = 0; f < families; ++f) {
    std::vector<std::vector<double>> effects(12);
    for (std::vector<double>& cell : effects) {
      for (int p = 0; p < 12; ++p) {
        const SimulatedProcess drawn = kind.draw(random, 10);
        cell.push_back(process_effect(drawn.base, drawn.arm) - kind.mean_effect);
      }
    }
    const auto verdicts = decide_changes(effects, states, rule);
    alarms += std::any_of(verdicts.begin(), verdicts.end(),
                          [](const auto& v) { return v["verdict"] == "REGRESSED" || v["verdict"] == "IMPROVED"; });
    for (double& e : effects[0]) {
      e += std::log(1.05);
    }
    rates.found += decide_changes(effects, states, rule)[0]["verdict"] == "REGRESSED" ? 1.0 / families : 0;
    ChangeRule family = rule;
    family.family = 12;
    rates.detectable += *detectable_change(effects[0], family) / families;
  }
  rates.alarms = clopper_pearson(alarms, families);
  return rates;
}

TEST(GateRates, FalseAlarmsAreBelowOnePercentAndSlowdownsAreFound) {
  for (const DataKind& kind : data_kinds()) {
    const GateRates rates = gate_rates(kind, {}, 300);
    EXPECT_LT(rates.alarms.upper, 0.01) << kind.name;
    if (rates.detectable < 0.05) {
      EXPECT_GE(rates.found, 0.9) << kind.name << " claims " << rates.detectable;
    }
  }
}

TEST(GateRates, LongTable) {
  if (!is_long()) {
    GTEST_SKIP() << "set DIPTYCH_LONG=1 to print the table";
  }
  fmt::print("| data | false alarms, band 2 % | (95 % bound) | without a band | detectable | +5 % found |\n");
  fmt::print("|---|--:|--:|--:|--:|--:|\n");
  for (const DataKind& kind : data_kinds()) {
    const GateRates rates = gate_rates(kind, {}, 2000);
    const GateRates bare = gate_rates(kind, {.delta = 0}, 2000);
    fmt::print("| {} | {} of {} | {:.2f} % | {:.2f} % | {:.1f} % | {:.1f} % |\n", kind.name, rates.alarms.alarms,
               rates.alarms.runs, 100 * rates.alarms.upper, 100 * bare.alarms.rate, 100 * rates.detectable,
               100 * rates.found);
    EXPECT_LT(rates.alarms.upper, 0.01) << kind.name;
  }
}

}  // namespace
}  // namespace diptych::reports::testing
