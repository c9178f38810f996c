#pragma once

#include <string>
#include <vector>

#include "reports/run/run.h"
#include "reports/views/explanation.h"

namespace diptych::reports {

/// What went wrong with a run, for the first screen of its views. Printable.
struct RunFailure {
  std::string what;   ///< what happened
  std::string holds;  ///< what may be used all the same
  std::vector<Suggestion> next;
};

/// Empty: nothing was measured; not complete; INVALID cells; CONTAMINATED cells. In that order; none of a good run.
std::vector<RunFailure> failures_of(const Run& run);

}  // namespace diptych::reports
