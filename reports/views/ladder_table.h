#pragma once

#include <string>

#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/table_options.h"

namespace diptych::reports {

/// The ladders of all cells for a terminal: a row and a bar for each rung, the residual, and the order.
std::string render_ladder(const Run& run, const TableOptions& options = {});

/// One ladder as a Markdown table.
std::string markdown_ladder(const Ladder& ladder);

/// "eager -> replay -> +plan -> +simplify (= graph)".
std::string ladder_order(const Ladder& ladder);

/// The saving of a rung, for the column of savings: "24.8 us [24.1, 25.3]"; "costs 29.5 us [19.0, 40.0]"; "-".
std::string saved_text(const Rung& rung, Glyphs glyphs);

/// "bitwise", "3 ULP", "-".
std::string ulp_text(const Rung& rung);

/// "60 % to 70 % (2 places)", or in seconds if the gap is unclear; "" if the rung was measured in one place only.
std::string place_text(const Rung& rung, Glyphs glyphs);

}  // namespace diptych::reports
