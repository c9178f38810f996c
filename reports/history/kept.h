#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/gate/compare_side.h"
#include "reports/history/history.h"

/// What is kept of each run until all are read: thousands of whole runs don't fit into memory, and their order is
/// known only at the end.
namespace diptych::reports {

/// Of a figure what comparing it with another takes.
struct KeptFigure {
  std::size_t cell = 0;    ///< index into KeptRuns::cells
  std::size_t method = 0;  ///< index into KeptRuns::methods
  std::optional<Estimate> seconds;
  std::vector<double> log_seconds;
  std::vector<std::optional<double>> exact;  ///< in the order of runtime::exact_metrics()
  bool counted = false;
  std::optional<double> instructions;
  std::string instruction_set;
  CellState state;
};

struct KeptRun {
  RunOfHistory about;
  nlohmann::json machine_fields;
  std::vector<KeptFigure> figures;
};

struct KeptMethod {
  Method of_run, of_arm;
};

struct KeptCell {
  std::string workload, arm;
};

struct KeptRuns {
  std::vector<KeptRun> runs;
  std::vector<KeptCell> cells;
  std::vector<KeptMethod> methods;
};

/// Puts them in order and judges them. Of the result, what the reader of files knows is empty: folder, what was looked
/// at, what was left out.
History judge_runs(KeptRuns kept);

}  // namespace diptych::reports
