#pragma once

#include <cstddef>
#include <string>

#include "reports/gate/documents.h"
#include "reports/text/table_options.h"

/// The advisory rows of a comparison or a gate (gate/advisory.h), for readers.
namespace diptych::reports {

/// The number of rows that a view shows: those that moved most.
inline constexpr std::size_t most_advisory_rows = 10;

/// Empty if there are no advisory rows.
std::string render_advisory(const ComparedDocument& document, const TableOptions& options = {});
std::string markdown_advisory(const ComparedDocument& document, std::size_t most = most_advisory_rows);

}  // namespace diptych::reports
