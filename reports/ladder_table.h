#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "reports/format.h"
#include "reports/table.h"

namespace diptych::reports {

/// The ladders of all cells for a terminal: a row and a bar a rung, the residual, and the order.
std::string render_ladder(const nlohmann::json& run, const TableOptions& options = {});

/// One ladder as a Markdown table.
std::string markdown_ladder(const nlohmann::json& ladder);

/// "eager -> replay -> +plan -> +simplify (= graph)".
std::string ladder_order(const nlohmann::json& ladder);

/// "bitwise", "3 ULP", "-".
std::string ulp_text(const nlohmann::json& rung);

/// "60 % to 70 % (2 places)", or in seconds where the gap is unclear; "" if the rung was measured in one place only.
std::string place_text(const nlohmann::json& rung, Glyphs glyphs);

}  // namespace diptych::reports
