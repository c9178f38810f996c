#pragma once

#include "reports/suggest.h"

namespace diptych::cli {

using reports::nearest;
using reports::unknown;

}  // namespace diptych::cli
