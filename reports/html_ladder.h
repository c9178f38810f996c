#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// The ladder of one cell as a table; empty where it has none.
std::string html_ladder(const nlohmann::json& cell);

}  // namespace diptych::reports
