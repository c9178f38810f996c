#pragma once

#include <string>

#include "reports/run/run.h"

namespace diptych::reports {

/// The ladder of one cell as a table; empty if it has none.
std::string html_ladder(const Cell& cell);

}  // namespace diptych::reports
