#pragma once

#include <filesystem>
#include <string_view>

/// Temporary files beside the outputs that they become, and what a killed process leaves of them.
namespace diptych::io {

/// Another name at each call: ".<name>.<process>-<number>.part".
std::filesystem::path temporary_beside(const std::filesystem::path& target);

/// Locks the open temporary file, so that no process takes it for a leftover, not even one of another container, which
/// doesn't see who writes it. False if one took it before: it has no name any more.
bool keep_from_removal(int descriptor);

/// Removes temporary files of this user in `folder` whose process has ended; those of outputs called `name` alone, if
/// it is given. What can't be removed stays: it is in nobody's way.
void remove_leftovers(const std::filesystem::path& folder, std::string_view name = {});

}  // namespace diptych::io
