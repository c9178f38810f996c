#pragma once

#include <memory>

#include <nlohmann/json.hpp>

#include "workloads/harness/cell/cell_plan.h"
#include "workloads/harness/cell/external_arms.h"
#include "workloads/harness/cell/heap_layout.h"

/// The timed part of a cell: warm-up, then rounds of one block per arm.
namespace diptych::workloads {

/// An arm that is ready to be timed, with the times of its calls so far.
struct WarmArm {
  std::unique_ptr<ArmInstance> instance;
  double build = 0;                   ///< seconds to make the instance
  double first_call = 0;              ///< seconds; it compiles
  double steady_call = 0;             ///< seconds of the latest call
  std::vector<double> later_calls{};  ///< seconds of the calls after the first, in order
};

/// What is known of a cell's calls before they are timed.
struct CallSize {
  double nominal_seconds = 0;  ///< of a call (probes/arithmetic.h)
  ArithmeticFloor floor = {};  ///< for external arms
};

/// Seconds that a block is to last: those of the plan, or longer for other frameworks' arms.
double block_seconds_of(const CellPlan& plan, const ExternalArms& external);
/// How many rounds a process times: those of the plan, or fewer if the calls are long. No clock has a say in it.
int rounds_of(const CellSettings& settings, double nominal_seconds);

/// One element of a cell's `processes`. Afterwards the instances may be different ones, and external arms may have
/// failed, which then have no times. Throws Error for a clock that steps.
nlohmann::json time_rounds(const CellPlan& plan, std::vector<WarmArm>& arms, ExternalArms& external, HeapLayout& layout,
                           const CallSize& size, const Progress& progress);

}  // namespace diptych::workloads
