#pragma once

#include <string>

#include "reports/run/run.h"

namespace diptych::reports {

/// The answer of `diptych why`, the first section of its page; empty in other runs.
std::string html_explanation(const Run& run);

}  // namespace diptych::reports
