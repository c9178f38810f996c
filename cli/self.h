#pragma once

#include <set>
#include <string>

#include "reports/compare.h"
#include "workloads/harness/runner.h"

namespace diptych::cli {

/// The path of the program that runs.
std::string own_program();

/// What the gate measures for these metrics: all of the size for times, one short process for what is counted.
workloads::RunPlan gate_plan(const std::set<reports::Tier>& tiers, std::uint64_t seed);

}  // namespace diptych::cli
