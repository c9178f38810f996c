#pragma once

#include "workloads/harness/cell.h"

/// The timed part of a cell: warm-up, then rounds of one block an arm.
namespace diptych::workloads {

/// An arm that is ready to be timed, with what its calls took until now.
struct WarmArm {
  ArmInstance* instance;
  double first_call = 0;              ///< seconds; it compiles
  double steady_call = 0;             ///< seconds of the latest call
  std::vector<double> later_calls{};  ///< seconds of the calls after the first, in order
};

/// One element of a cell's `processes`. Throws Error for a clock that steps.
nlohmann::json time_rounds(const CellPlan& plan, std::vector<WarmArm>& arms, const Progress& progress);

}  // namespace diptych::workloads
