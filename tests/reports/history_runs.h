#pragma once

#include <string>
#include <vector>

#include "reports/history/reader.h"
#include "reports/run/json_access.h"
#include "tests/reports/sample_run.h"

namespace diptych::reports::testing {

/// A run of one cell, `factor` times as long as the sample, on that day.
inline Json dated_run(int day, double factor = 1, const SampleSize& size = {}) {
  Json run = slowed_run(factor, static_cast<std::uint64_t>(day) + 1, size);
  const auto two_digits = [](int number) { return (number < 10 ? "0" : "") + std::to_string(number); };
  run["created"] = "2026-" + two_digits(1 + day / 28) + "-" + two_digits(1 + day % 28) + "T08:00:00Z";
  return run;
}

/// Their history; the folder of each is "r" and its position.
inline History history_of(const std::vector<Json>& runs) {
  HistoryReader reader;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    RunOfHistory about;
    about.folder = "r" + std::to_string(i);
    about.report = about.folder + "/report.html";
    reader.add(about, runs[i]);
  }
  History history = std::move(reader).finish();
  history.folder = "out";
  history.looked_at = "Looked at everything";
  return history;
}

/// The series of that arm, the current one first; a failure of the test if there is none.
inline const HistorySeries& series_of(const History& history, const std::string& arm = "graph") {
  for (const HistorySeries& series : history.series) {
    if (series.arm == arm) {
      return series;
    }
  }
  throw std::runtime_error("no series of " + arm);
}

}  // namespace diptych::reports::testing
