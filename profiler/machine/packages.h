#pragma once

#include <optional>
#include <string>
#include <vector>

#include "profiler/machine/system_files.h"

namespace diptych::profiler {

struct Package {
  std::string name;     ///< without the architecture: "libopenblas0-pthread"
  std::string version;  ///< as dpkg compares it: "0.3.21+ds-4"
  bool operator==(const Package&) const = default;
};

/// Whether the machine has dpkg's database (Debian and its derivatives).
bool has_package_database(const SystemFiles& files);

/// The installed package that each file came with; nullopt if none. `paths` must be absolute, with symbolic links
/// resolved. Reads dpkg's lists (10 MB or so), without running a process.
std::vector<std::optional<Package>> packages_of(const SystemFiles& files, const std::vector<std::string>& paths);

}  // namespace diptych::profiler
