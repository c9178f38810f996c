#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "reports/gate/compare_side.h"
#include "reports/run/fingerprint.h"

/// Advisory rows of a comparison: resident memory, page faults, hardware counters. They have no verdict and are kept in
/// a separate list, "advisory", so that nothing can be decided by them.
namespace diptych::reports {

/// Appends {"workload", "arm", "metric", "tier": "advisory", "unit", "base", "head", "ratio"} for each metric that both
/// sides have. Hardware counters are included only if the machines aren't known to differ; peaks only if the processes
/// had measured the same before.
void add_advisory_rows(nlohmann::json& rows, const Subject& base, const Subject& head, SameMachine machine);

}  // namespace diptych::reports
