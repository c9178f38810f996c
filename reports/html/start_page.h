#pragma once

#include <string>

#include "reports/history/history.h"

namespace diptych::reports {

/// index.html of a folder of runs: what changed lately, what to type next, every cell with its times run by run, the
/// runs with links to their reports, the machines, and what was left out and why. Tables can be sorted and filtered.
std::string render_start_page(const History& history);

}  // namespace diptych::reports
