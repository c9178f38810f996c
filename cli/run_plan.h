#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli/verbs.h"
#include "workloads/harness/plan.h"

/// From the typed options to the plan of a measurement.
namespace diptych::cli {

/// The fingerprint of this machine, build and process, with the engine's kernels.
nlohmann::json present_environment();
/// The part `engine` of the fingerprint: BLAS, what multiplies matrices, and the instruction set.
nlohmann::json engine_facts();

/// The run.json of the plan before anything is measured: everything but the cells.
nlohmann::json new_run(const workloads::RunPlan& plan, const std::string& name, const std::vector<std::string>& command,
                       const nlohmann::json& environment);

/// Puts the raw cells into the run, with the commands that repeat them, and analyses it.
void set_cells(nlohmann::json& run, const workloads::RunPlan& plan, nlohmann::json cells, const std::string& status);

/// The CPUs that this process may use. Throws Error if they are fewer than `threads`, as typed behind --threads.
std::vector<int> cpus_for(int threads);

/// Throws Error for impossible names, numbers and combinations.
workloads::RunPlan plan_from(const RunOptions& options);

/// The plan of `run`, the file at `path`, for continuing it. Throws Error if the typed options contradict it, or if the
/// program or the machine is a different one.
workloads::RunPlan plan_to_resume(const RunOptions& options, const nlohmann::json& run,
                                  const std::filesystem::path& path);

}  // namespace diptych::cli
