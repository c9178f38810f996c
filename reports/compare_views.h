#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/table.h"

/// A comparison document (compare.h) as text for terminals and as Markdown; `base` and `head` name the sides.
namespace diptych::reports {

struct SideNames {
  std::string base, head;
};

std::string render_comparison(const nlohmann::json& comparison, const SideNames& names,
                              const TableOptions& options = {});
std::string render_comparison_markdown(const nlohmann::json& comparison, const SideNames& names);

/// The parts, which the gate's views share. As they stand in the document: escape them for the medium.
std::string row_subject(const nlohmann::json& row);  ///< "mlp/digits/graph"
std::string row_values(const nlohmann::json& row);   ///< "68.2 us -> 71.0 us", "62 -> 63"
std::string row_change(const nlohmann::json& row);   ///< "+4.1 % [+3.0, +5.2]"
/// "slower", "faster", "dim" or "": of a verdict, for colours.
std::string row_tone(const nlohmann::json& row);
/// Worst first: REGRESSED, INVALID, CONTAMINATED, INCONCLUSIVE, IMPROVED, EQUIVALENT; in a verdict as they come.
std::vector<nlohmann::json> rows_by_severity(const nlohmann::json& rows);
/// "12 compared: 1 REGRESSED, 11 EQUIVALENT".
std::string count_line(const nlohmann::json& summary);
/// "| cpu.model | A | B |" rows of the differences that matter, under a heading row; empty if there are none.
std::string fingerprint_markdown(const nlohmann::json& environment);

}  // namespace diptych::reports
