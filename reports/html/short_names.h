#pragma once

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// The document with its strings cut in the middle to what a page has room for: names to 400 columns, wherever they
/// stand, so that equal ones stay equal; commands, reasons and the environment to 2,000.
nlohmann::json with_short_names(const nlohmann::json& document);

}  // namespace diptych::reports
