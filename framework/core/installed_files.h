#pragma once

#include <filesystem>
#include <vector>

namespace diptych {

/// Folders "share/diptych" that may hold the files installed with the program: around the executable, from the inside
/// out, then that of the tree that find_package(diptych) found, for programs that lie elsewhere.
std::vector<std::filesystem::path> share_folders();

}  // namespace diptych
