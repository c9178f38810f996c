#pragma once

#include <string>

#include "reports/run/run.h"
#include "reports/text/table_options.h"

namespace diptych::reports {

/// The content of docs/peers.md: a run with arms of other frameworks, as Markdown. Times side by side, the time needed
/// before the first call, the reason why an arm is missing, versions, and the command.
std::string render_peers(const Run& run);

/// The same for a terminal: aligned columns, and every hint in full.
std::string render_peers_table(const Run& run, const TableOptions& options = {});

}  // namespace diptych::reports
