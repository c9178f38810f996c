#pragma once

#include <string>

#include "reports/run/run.h"

namespace diptych::reports {

/// Memory and counters of one cell, as a folded table.
std::string html_usage(const Cell& cell);

}  // namespace diptych::reports
