#pragma once

#include <string>

#include "reports/run/run.h"

namespace diptych::reports {

/// summary.md: verdict, table, why, command; the environment is folded. For pull requests and job summaries.
std::string render_markdown(const Run& run);

}  // namespace diptych::reports
