#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/analysis/verdict.h"
#include "reports/run/verdicts.h"
#include "reports/statistics/statistics.h"

/// Many runs as one history: each cell's times in the order in which they were measured, each judged against the run
/// before it that it can be compared with, and the points where the level of the times changed (docs/history.md). Names
/// are as they stand in the files: escape them for the medium.
namespace diptych::reports {

struct RunOfHistory {
  std::string folder;  ///< below the history's folder: "20261121T080305Z-mlp-digits"
  std::string report;  ///< report.html, relative to where the page will stand; empty if there is none
  std::string name, created, status, size;
  std::string revision;  ///< of the sources; empty: not recorded
  bool is_dirty = false;
  std::size_t machine = 0;  ///< index into History::machines
  std::size_t cells = 0;    ///< arms of workloads
};

struct MachineOfHistory {
  std::string name;                      ///< "A"; the unknown one has none
  std::string model;                     ///< of its CPU
  nlohmann::json fields;                 ///< machine_fields() of its first run
  std::size_t runs = 0;                  ///< on it
  std::size_t first = 0, last = 0;       ///< indices of runs
  std::vector<std::string> differences;  ///< from the first machine: "os.kernel: 6.1.0 / 6.1.2"

  bool is_known() const { return !name.empty(); }
};

/// A file or folder that is no part of the history.
struct LeftOut {
  std::string path;
  std::string reason;
};

/// A figure of a run.
struct HistoryPoint {
  std::size_t run = 0;              ///< index into History::runs
  std::optional<Estimate> seconds;  ///< of a call; empty: not timed
  CellState state;
  /// Against `base`; of a first point only CONTAMINATED and INVALID. Empty: there is nothing to compare with.
  std::optional<Verdict> verdict;
  std::string detail;               ///< of the verdict
  std::optional<std::size_t> base;  ///< index of the run
  std::optional<Estimate> ratio;    ///< this time / that of the base
  std::vector<std::string> counts;  ///< exact figures and instructions that are others than in the base
  bool counts_are_worse = false;    ///< any of them REGRESSED

  /// Whether its time may be a base, and part of a level.
  bool is_usable() const { return seconds && state.agree && !is_contaminated(state); }
};

/// A stretch of points between changes.
struct HistoryLevel {
  std::size_t begin = 0, end = 0;  ///< points; those between that aren't usable don't count
  double seconds = 0;              ///< median of the points' times
};

enum class Trend { slower, faster, same, method_changed, cannot_tell, first };
/// "slower", "cannot tell"
const char* name_of(Trend trend);

/// The last change of a series, if there was one lately; otherwise what its newest point says.
struct LatestChange {
  Trend trend = Trend::first;
  std::size_t base = 0, head = 0;  ///< indices of the runs to compare
  double ratio = 1;                ///< of times
  bool is_level = false;           ///< found as a change of level, not by comparing the two runs
};

/// The points of a cell that were measured in the same way on one machine, by time.
struct HistorySeries {
  std::string workload, arm;
  std::size_t machine = 0;
  std::vector<HistoryPoint> points;
  std::vector<HistoryLevel> levels;  ///< empty: none can be known
  std::string method_change;         ///< from the series before: "threads 1 -> 2"; empty for the first one
  bool is_current = true;            ///< it has the cell's newest point on this machine
  LatestChange latest;

  /// The newest point that was timed or is INVALID; the newest of all if there is none.
  const HistoryPoint& newest() const;
  /// "mlp/digits/graph"
  std::string cell() const { return workload + "/" + arm; }
};

/// What counts as lately: the last points of a series.
inline constexpr std::size_t kLately = 10;
/// Points of a level; fewer are no level.
inline constexpr std::size_t kShortestLevel = 3;

struct History {
  std::string folder;              ///< as it was named
  std::string looked_at;           ///< in words
  std::vector<RunOfHistory> runs;  ///< by the time when they were started
  std::vector<MachineOfHistory> machines;
  std::vector<HistorySeries> series;  ///< slower ones first, then faster ones, each by the size of the change
  std::vector<LeftOut> left_out;

  /// Of the current series.
  std::size_t count(Trend trend) const;
  std::size_t current() const;
};

inline constexpr const char* history_schema_id = "diptych.history/1";
/// {"schema", "folder", "looked_at", "runs", "machines", "series", "left_out"} (docs/history.md). `most_points`: of
/// each series, the newest; with fewer than all, "points_left_out" says how many.
nlohmann::json history_document(const History& history, std::size_t most_points = static_cast<std::size_t>(-1));

}  // namespace diptych::reports
