#pragma once

#include <set>
#include <string>

#include "reports/gate/compare.h"
#include "workloads/harness/runner.h"

namespace diptych::cli {

/// The path of the running program.
std::string own_program();

/// The plan of a gate for these metrics: the full size for times, one short process for counts.
workloads::RunPlan gate_plan(const std::set<reports::Tier>& tiers, std::uint64_t seed);

}  // namespace diptych::cli
