#pragma once

#include <string>

#include "reports/run/run.h"

namespace diptych::reports {

/// The flame graphs and the memory of a cell's profile, as sections that open, with tables of the largest figures;
/// empty if none were recorded.
std::string html_profile(const Cell& cell);

}  // namespace diptych::reports
