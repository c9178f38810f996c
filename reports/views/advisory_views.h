#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

#include "reports/text/table_options.h"

/// The advisory rows of a comparison or a gate (gate/advisory.h), for readers.
namespace diptych::reports {

/// The number of rows that a view shows: those that moved most.
inline constexpr std::size_t most_advisory_rows = 10;

/// `document`: a comparison or a gate; empty if it has no advisory rows.
std::string render_advisory(const nlohmann::json& document, const TableOptions& options = {});
std::string markdown_advisory(const nlohmann::json& document, std::size_t most = most_advisory_rows);

}  // namespace diptych::reports
