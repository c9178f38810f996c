#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// What docs/peers.md shows: a run with arms of other frameworks, as Markdown: times beside each other, what it takes
/// before the first one, why an arm is missing, with versions and the command.
std::string render_peers(const nlohmann::json& run);

}  // namespace diptych::reports
