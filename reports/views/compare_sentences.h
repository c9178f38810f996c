#pragma once

#include <string>
#include <vector>

#include "reports/gate/documents.h"
#include "reports/run/run.h"
#include "reports/views/compare_views.h"
#include "reports/views/explanation.h"

/// A comparison in words. Names are not escaped: escape them for the medium.
namespace diptych::reports {

/// What changed, how sure, or why nothing can be said: "1 of 15 figures is worse, most: mlp/digits/graph time +4.10 %
/// [+3.00, +5.20]; 14 are the same".
std::string comparison_headline(const ComparisonDocument& comparison);

/// What to type next, the most useful first; empty if nothing is open. `base`: the run, of which files of Google
/// Benchmark have no part.
std::vector<Suggestion> comparison_next(const ComparisonDocument& comparison, const Run& base, const SideNames& names);

}  // namespace diptych::reports
