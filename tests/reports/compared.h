#pragma once

#include <string>

#include "framework/core/error.h"
#include "reports/gate/compare.h"
#include "reports/run/json_access.h"

namespace diptych::reports::testing {

/// Why two files can't be compared; empty if they can.
inline std::string refusal(const Json& base, const Json& head) {
  try {
    compare_runs(base, head);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace diptych::reports::testing
