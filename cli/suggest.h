#pragma once

#include "reports/text/suggest.h"

namespace diptych::cli {

using reports::nearest;
using reports::unknown;

}  // namespace diptych::cli
