#include "framework/core/installed_files.h"

/// Defined in programs built with find_package(diptych) (cmake/diptychConfig.cmake.in).
extern "C" __attribute__((weak)) const char* const diptych_share_folder;

namespace diptych {

std::vector<std::filesystem::path> share_folders() {
  namespace fs = std::filesystem;
  std::vector<fs::path> folders;
  std::error_code ignored;
  const fs::path binary = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (fs::path folder = binary; folder.has_relative_path(); folder = folder.parent_path()) {
    folders.push_back(folder / "share/diptych");
  }
  if (&diptych_share_folder != nullptr) {
    folders.emplace_back(diptych_share_folder);
  }
  return folders;
}

}  // namespace diptych
