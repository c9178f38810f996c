#pragma once

#include <string>

#include "reports/analysis/aligned_profile.h"

namespace diptych::reports {

/// The profile of several arms as a table of a page, a row for each op: what changed most first. Folded if it is long.
std::string html_op_table(const AlignedProfile& profile);

}  // namespace diptych::reports
