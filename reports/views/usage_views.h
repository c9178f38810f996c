#pragma once

#include <string>

#include "reports/analysis/usage.h"
#include "reports/run/run.h"
#include "reports/text/table_options.h"

/// Memory and hardware counters of a run (analysis/usage.h), for readers.
namespace diptych::reports {

/// "1.2 GB", "12,345"; "-" if unknown.
std::string usage_text(const Arm& arm, const UsageMetric& metric);

/// For terminals: a table of the hardware counters, or one line that says why there are none; empty for runs that
/// recorded nothing.
std::string render_usage(const Run& run, const TableOptions& options = {});
/// Memory and counters of every arm, folded, followed by the same line.
std::string markdown_usage(const Run& run);

}  // namespace diptych::reports
