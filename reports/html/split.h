#pragma once

#include <string>

#include "reports/run/run.h"

namespace diptych::reports {

/// What eager does besides running kernels (views/split_views.h), as tables.
std::string html_split(const Split& split);

}  // namespace diptych::reports
