#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "framework/core/text.h"
#include "profiler/trace/op_table.h"
#include "profiler/units_text.h"

namespace diptych::profiler {

namespace {

std::string percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f}%", 100.0 * part / whole) : std::string("-");
}

std::string footer(const OpTable& table, bool below_resolution) {
  const auto wall = static_cast<double>(table.wall_ns);
  const auto covered = static_cast<double>(table.covered_ns);
  const auto uncovered = static_cast<double>(table.uncovered_ns);
  std::string text =
      fmt::format("\nwall {}; inside zones {} ({}), outside {} ({}); {} zones on {} thread{}\n", format_duration(wall),
                  format_duration(covered), percent(covered, wall), format_duration(uncovered),
                  percent(uncovered, wall), table.zones, table.threads, table.threads == 1 ? "" : "s");
  if (table.overhead.enabled_ns > 0) {
    text += fmt::format(
        "profiler overhead, estimated: {} zones x {:.1f} ns (+-{:.1f}) = {} ({} of wall); \"corrected\" is without "
        "it\n",
        table.zones, table.overhead.enabled_ns, table.overhead.spread_ns / 2,
        format_duration(table.estimated_overhead_ns), percent(table.estimated_overhead_ns, wall));
  } else {
    text += "profiler overhead: not measured\n";
  }
  if (below_resolution) {
    text += "a negative corrected time means that the op is shorter than what the tracer resolves\n";
  }
  if (table.dropped > 0) {
    text += fmt::format("INCOMPLETE: {} records were dropped; raise the tracer's max_bytes or trace fewer steps\n",
                        table.dropped);
  }
  return text;
}

}  // namespace

std::string render(const OpTable& table, std::size_t max_rows) {
  const bool corrected = table.overhead.enabled_ns > 0;
  TextRows rows = {{"category", "op", "calls", "self", "corrected", "share", "total", "mean", "min", "max"}};
  const std::size_t shown = max_rows == 0 ? table.rows.size() : std::min(max_rows, table.rows.size());
  bool below_resolution = false;
  for (std::size_t i = 0; i < shown; ++i) {
    const OpRow& row = table.rows[i];
    below_resolution |= row.corrected_self_ns < 0;
    rows.push_back({std::string(to_string(row.category)), shorten(printable(row.name), 48), std::to_string(row.calls),
                    format_duration(static_cast<double>(row.self_ns)),
                    corrected ? format_duration(row.corrected_self_ns) : std::string("-"),
                    fmt::format("{:.1f}%", 100.0 * row.share_of_wall),
                    format_duration(static_cast<double>(row.total_ns)), format_duration(row.mean_ns),
                    format_duration(static_cast<double>(row.min_ns)),
                    format_duration(static_cast<double>(row.max_ns))});
  }
  std::array<Align, 10> columns;
  columns.fill(Align::right);
  columns[0] = columns[1] = Align::left;
  std::string result;
  for (const std::string& line : aligned_lines(rows, columns)) {
    result += line + '\n';
  }
  if (shown < table.rows.size()) {
    result += fmt::format("... and {} more rows\n", table.rows.size() - shown);
  }
  return result + footer(table, below_resolution);
}

}  // namespace diptych::profiler
