#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "reports/gate/documents.h"
#include "reports/text/table_options.h"

/// A comparison document (compare.h) as text for terminals and as Markdown; `base` and `head` name the sides.
namespace diptych::reports {

struct SideNames {
  std::string base, head;
};

std::string render_comparison(const ComparisonDocument& comparison, const SideNames& names,
                              const TableOptions& options = {});
std::string render_comparison_markdown(const ComparisonDocument& comparison, const SideNames& names);

/// "threads 1 -> 2", "mlp/digits/ort: framework ort 1.20 -> ort 1.21". Not escaped: escape it for the medium.
std::string method_change_text(const MethodEntry& change);

/// Parts that the gate's views share. Not escaped: escape them for the medium.
std::string row_values(const ComparisonRow& row);  ///< "68.2 us -> 71.0 us", "62 -> 63"
std::string row_change(const ComparisonRow& row);  ///< "+4.1 % [+3.0, +5.2]"
/// The tone of a verdict, for colours: "slower", "faster", "dim" or "".
std::string row_tone(const ComparisonRow& row);
/// A line of a text table: cell, metric, values, change and `verdict`.
std::vector<std::string> row_fields(const ComparisonRow& row, const std::string& verdict);
/// The same without a verdict as the start of a line in Markdown, escaped: "| cell | metric | values | change |".
std::string row_markdown(const ComparisonRow& row);
/// Worst first: REGRESSED, INVALID, CONTAMINATED, METHOD CHANGED, INCONCLUSIVE, IMPROVED, EQUIVALENT; the order within
/// a verdict is kept.
std::vector<ComparisonRow> rows_by_severity(const Parts<ComparisonRow>& rows);
/// What moved most first, on the log scale; a move from or to zero is the farthest.
std::vector<ComparisonRow> rows_by_change(const Parts<ComparisonRow>& rows);
/// "by commit, not interleaved, machine: same, level 99 % over all time rows together".
std::string comparison_setup(const ComparisonDocument& comparison);
/// A count that hasn't changed.
bool is_unremarkable(const ComparisonRow& row);
std::vector<EnvironmentDifference> differences_that_matter(const Parts<EnvironmentDifference>& environment);
/// Why rows that no verdict follows from have none: a line for each reason, "INVALID (2 rows): no host name; ...". Not
/// escaped.
std::vector<std::string> reasons_of_the_undecided(const std::vector<ComparisonRow>& rows);
/// "12 compared: 1 REGRESSED, 11 EQUIVALENT".
std::string count_line(const RowSummary& summary);
/// The heading and the names of each list that has any.
std::vector<std::pair<std::string, std::string>> name_lists(
    std::initializer_list<std::pair<const char*, NameList>> lists);
/// "| cpu.model | A | B |" rows of the differences that matter, under a heading row; empty if there are none.
std::string fingerprint_markdown(const Parts<EnvironmentDifference>& environment);

}  // namespace diptych::reports
