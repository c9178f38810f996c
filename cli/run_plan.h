#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli/verbs.h"
#include "workloads/harness/plan.h"

/// From what was typed to what is measured.
namespace diptych::cli {

/// The fingerprint of this machine, build and process, with the engine's kernels.
nlohmann::json present_environment();
/// The part `engine` of it: BLAS and instruction set.
nlohmann::json engine_facts();

/// run.json of the plan before anything is measured: all but the cells.
nlohmann::json new_run(const workloads::RunPlan& plan, const std::string& name, const std::vector<std::string>& command,
                       const nlohmann::json& environment);

/// Puts the raw cells into the run, with the commands that repeat them, and analyses it.
void set_cells(nlohmann::json& run, const workloads::RunPlan& plan, nlohmann::json cells, const std::string& status);

/// Throws Error for names, numbers and combinations that can't be.
workloads::RunPlan plan_from(const RunOptions& options);

/// The plan of `run`, which stands in `path`, to be continued. Throws Error if what was typed contradicts it, or the
/// program or the machine is another one.
workloads::RunPlan plan_to_resume(const RunOptions& options, const nlohmann::json& run,
                                  const std::filesystem::path& path);

}  // namespace diptych::cli
