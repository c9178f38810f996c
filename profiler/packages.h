#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/system_files.h"

namespace diptych::profiler {

struct Package {
  std::string name;     ///< without the architecture: "libopenblas0-pthread"
  std::string version;  ///< as dpkg compares it: "0.3.21+ds-4"
  bool operator==(const Package&) const = default;
};

/// Whether the machine keeps dpkg's database (Debian and what derives from it).
bool has_package_database(const SystemFiles& files);

/// The installed package that each file came with; nullopt where none did. `paths` are absolute, symbolic links
/// resolved. Reads dpkg's lists (10 MB or so), without running a process.
std::vector<std::optional<Package>> packages_of(const SystemFiles& files, const std::vector<std::string>& paths);

}  // namespace diptych::profiler
