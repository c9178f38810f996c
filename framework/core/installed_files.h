#pragma once

#include <filesystem>
#include <vector>

namespace diptych {

/// Candidate folders "share/diptych" for the files installed with the program: first those around the executable, from
/// the inside out, then the one in the tree that find_package(diptych) found, for programs located elsewhere.
std::vector<std::filesystem::path> share_folders();

}  // namespace diptych
