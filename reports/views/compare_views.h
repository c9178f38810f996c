#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/text/table_options.h"

/// A comparison document (compare.h) as text for terminals and as Markdown; `base` and `head` name the sides.
namespace diptych::reports {

struct SideNames {
  std::string base, head;
};

std::string render_comparison(const nlohmann::json& comparison, const SideNames& names,
                              const TableOptions& options = {});
std::string render_comparison_markdown(const nlohmann::json& comparison, const SideNames& names);

/// Parts that the gate's views share. Not escaped: escape them for the medium.
std::string row_values(const nlohmann::json& row);  ///< "68.2 us -> 71.0 us", "62 -> 63"
std::string row_change(const nlohmann::json& row);  ///< "+4.1 % [+3.0, +5.2]"
/// The tone of a verdict, for colours: "slower", "faster", "dim" or "".
std::string row_tone(const nlohmann::json& row);
/// Worst first: REGRESSED, INVALID, CONTAMINATED, INCONCLUSIVE, IMPROVED, EQUIVALENT; the order within a verdict is
/// kept.
std::vector<nlohmann::json> rows_by_severity(const nlohmann::json& rows);
/// "12 compared: 1 REGRESSED, 11 EQUIVALENT".
std::string count_line(const nlohmann::json& summary);
/// "| cpu.model | A | B |" rows of the differences that matter, under a heading row; empty if there are none.
std::string fingerprint_markdown(const nlohmann::json& environment);

}  // namespace diptych::reports
