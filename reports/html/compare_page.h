#pragma once

#include <string>

#include "reports/gate/documents.h"
#include "reports/run/run.h"
#include "reports/views/compare_views.h"

namespace diptych::reports {

/// compare.html: two runs on one page. First what changed, what to type next, the figures by size of change with the
/// differences of the environments beside them; then every workload of both runs, arm by arm, rung by rung and op by
/// op. Verdicts are those of the document. Of Google Benchmark's files, `base` and `head` have no cells.
std::string render_compare_page(const ComparisonDocument& comparison, const Run& base, const Run& head,
                                const SideNames& names);

}  // namespace diptych::reports
