#pragma once

#include <optional>
#include <string>

/// Builds the program of a git revision, for the gate.
namespace diptych::cli {

/// The full hash of the commit that `ref` names in the repository of `folder` (empty: this one); empty if it names
/// none.
std::optional<std::string> resolve_ref(const std::string& ref, const std::string& folder = "");

/// Checks the revision out into a separate worktree and builds its target `diptych` (Release, Ninja). Returns the path
/// of the program, `<cache>/<revision>/diptych`, which is reused if it exists. The worktree is removed in any case.
/// Throws Error with the last lines of the output of what failed.
std::string build_revision(const std::string& revision, const std::string& cache);

}  // namespace diptych::cli
