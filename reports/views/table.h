#pragma once

#include <string>

#include "reports/run/run.h"
#include "reports/text/table_options.h"

namespace diptych::reports {

/// The run as a terminal table: one row per cell, then why, then the metrics. Chooses the widest form that fits: times
/// with intervals, times with a relative spread, or one block per cell.
std::string render_table(const Run& run, const TableOptions& options = {});

}  // namespace diptych::reports
