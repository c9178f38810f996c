#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace diptych::reports {

struct EnvironmentEntry {
  std::string name;   ///< "cpu.model"
  std::string value;  ///< not escaped: escape it for the medium
};

/// The fingerprint, whatever its shape, as a flat list; at most `limit` entries.
std::vector<EnvironmentEntry> flatten_environment(const nlohmann::json& environment, std::size_t limit = 400);

}  // namespace diptych::reports
