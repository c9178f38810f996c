#include "cli/self.h"

#include <filesystem>

namespace diptych::cli {

std::string own_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace diptych::cli
