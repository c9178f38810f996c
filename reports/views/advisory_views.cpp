#include "reports/views/advisory_views.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "reports/gate/compare.h"
#include "reports/run/json_access.h"
#include "reports/text/text.h"
#include "reports/text/text_table.h"
#include "reports/views/compare_views.h"

namespace diptych::reports {
namespace {

/// How far a row moved, on the log scale; a move from or to zero is the farthest.
double move_of(const Json& row) {
  const double base = number(row, "base").value_or(0);
  const double head = number(row, "head").value_or(0);
  return base == head ? 0 : base > 0 && head > 0 ? std::abs(std::log(head / base)) : INFINITY;
}

std::vector<Json> farthest_first(const Json& document) {
  const Json& rows = list(document, "advisory");
  std::vector<Json> out(rows.begin(), rows.end());
  std::stable_sort(out.begin(), out.end(), [](const Json& a, const Json& b) { return move_of(a) > move_of(b); });
  return out;
}

}  // namespace

std::string render_advisory(const Json& document, const TableOptions& options) {
  const std::vector<Json> rows = farthest_first(document);
  if (rows.empty()) {
    return "";
  }
  TextTable table({"advisory", "metric", "base -> head", "change"});
  for (std::size_t i = 0; i < std::min(rows.size(), most_advisory_rows); ++i) {
    table.add({shorten(printable(row_subject(rows[i])), 44), printable(text(rows[i], "metric")), row_values(rows[i]),
               row_change(rows[i])},
              "dim");
  }
  std::string out = table.render(options.colour, options.width);
  if (rows.size() > most_advisory_rows) {
    out += fmt::format("and {} more advisory rows; the JSON has all\n", rows.size() - most_advisory_rows);
  }
  return out;
}

std::string markdown_advisory(const Json& document, std::size_t most) {
  const std::vector<Json> rows = farthest_first(document);
  if (rows.empty() || most == 0) {
    return "";
  }
  std::string out = "| advisory, decides nothing | metric | base -> head | change |\n|---|---|---|---|\n";
  for (std::size_t i = 0; i < std::min(rows.size(), most); ++i) {
    out += fmt::format("| {} | {} | {} | {} |\n", escape_markdown(shorten(printable(row_subject(rows[i])), 100)),
                       escape_markdown(text(rows[i], "metric")), escape_markdown(row_values(rows[i])),
                       escape_markdown(row_change(rows[i])));
  }
  return out + (rows.size() > most ? fmt::format("\nand {} more advisory rows; the JSON has all\n", rows.size() - most)
                                   : std::string());
}

}  // namespace diptych::reports
