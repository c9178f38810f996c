#include "reports/views/advisory_views.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "reports/text/text.h"
#include "reports/text/text_table.h"
#include "reports/views/compare_views.h"

namespace diptych::reports {

std::string render_advisory(const ComparedDocument& document, const TableOptions& options) {
  const std::vector<ComparisonRow> rows = rows_by_change(document.advisory());
  if (rows.empty()) {
    return "";
  }
  TextTable table({"advisory", "metric", "base -> head", "change"});
  for (std::size_t i = 0; i < std::min(rows.size(), most_advisory_rows); ++i) {
    table.add({shorten(printable(rows[i].subject()), 44), printable(rows[i].metric()), row_values(rows[i]),
               row_change(rows[i])},
              "dim");
  }
  std::string out = table.render(options.colour, options.width);
  if (rows.size() > most_advisory_rows) {
    out += fmt::format("and {} more advisory rows; the JSON has all\n", rows.size() - most_advisory_rows);
  }
  return out;
}

std::string markdown_advisory(const ComparedDocument& document, std::size_t most) {
  const std::vector<ComparisonRow> rows = rows_by_change(document.advisory());
  if (rows.empty() || most == 0) {
    return "";
  }
  std::string out = "| advisory, decides nothing | metric | base -> head | change |\n|---|---|---|---|\n";
  for (std::size_t i = 0; i < std::min(rows.size(), most); ++i) {
    out += row_markdown(rows[i]) + "\n";
  }
  return out + (rows.size() > most ? fmt::format("\nand {} more advisory rows; the JSON has all\n", rows.size() - most)
                                   : std::string());
}

}  // namespace diptych::reports
