#pragma once

#include <string>

#include "reports/run/run.h"

namespace diptych::reports {

/// What went wrong, what still holds and what to type next; empty for a good run.
std::string html_failures(const Run& run);

}  // namespace diptych::reports
