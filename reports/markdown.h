#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// summary.md: verdict, table, why, command; the environment folded away. For pull requests and job summaries.
std::string render_markdown(const nlohmann::json& run);

}  // namespace diptych::reports
