#pragma once

#include <optional>
#include <string>

/// Builds the program of a git revision, for the gate.
namespace diptych::cli {

/// The full hash of what `ref` names in the repository of `folder` (empty: this one); empty if it names no commit.
std::optional<std::string> resolve_ref(const std::string& ref, const std::string& folder = "");

/// Checks the revision out into a worktree of its own and builds its target `diptych` (Release, Ninja). Gives the path
/// of the program, `<cache>/<revision>/diptych`, which is reused if it is there. The worktree is removed, whatever
/// happens. Throws Error with the last lines of what failed.
std::string build_revision(const std::string& revision, const std::string& cache);

}  // namespace diptych::cli
