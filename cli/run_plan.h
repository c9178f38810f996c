#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "cli/verbs.h"
#include "workloads/harness/plan.h"

/// From what was typed to what is measured.
namespace diptych::cli {

/// The fingerprint of this machine, build and process, with the engine's kernels.
nlohmann::json present_environment();

/// Throws Error for names, numbers and combinations that can't be.
workloads::RunPlan plan_from(const RunOptions& options);

/// The plan of `run`, which stands in `path`, to be continued. Throws Error if what was typed contradicts it, or the
/// program or the machine is another one.
workloads::RunPlan plan_to_resume(const RunOptions& options, const nlohmann::json& run,
                                  const std::filesystem::path& path);

}  // namespace diptych::cli
