#pragma once

#include <memory>

#include "workloads/harness/cell.h"
#include "workloads/harness/external_arms.h"
#include "workloads/harness/heap_layout.h"

/// The timed part of a cell: warm-up, then rounds of one block an arm.
namespace diptych::workloads {

/// An arm that is ready to be timed, with what its calls took until now.
struct WarmArm {
  std::unique_ptr<ArmInstance> instance;
  double build = 0;                   ///< seconds to make the instance
  double first_call = 0;              ///< seconds; it compiles
  double steady_call = 0;             ///< seconds of the latest call
  std::vector<double> later_calls{};  ///< seconds of the calls after the first, in order
};

/// One element of a cell's `processes`. The instances may be others afterwards, and external arms may have failed:
/// those have no times. Throws Error for a clock that steps.
nlohmann::json time_rounds(const CellPlan& plan, std::vector<WarmArm>& arms, ExternalArms& external, HeapLayout& layout,
                           const Progress& progress);

}  // namespace diptych::workloads
