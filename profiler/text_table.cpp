#include "profiler/text_table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "framework/core/text.h"

namespace diptych::profiler {

namespace {

std::string scaled(double value, std::array<std::string_view, 4> units, double step) {
  std::size_t unit = 0;
  while (std::abs(value) >= step * 0.9995 && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  const double magnitude = std::abs(value);
  const bool whole = unit == 0 && magnitude == std::floor(magnitude);
  const int decimals = whole || magnitude >= 99.95 ? 0 : unit == 0 || magnitude >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

}  // namespace

std::string TextTable::render() const {
  std::vector<int> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(static_cast<std::size_t>(widths[i] - display_width(row[i])), ' ');
      line += i == 0 ? "" : "  ";
      line += columns_[i] == Align::right ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

std::string format_duration(double nanoseconds) { return scaled(nanoseconds, {"ns", "us", "ms", "s"}, 1000.0); }

std::string format_bytes(double bytes) { return scaled(bytes, {"B", "KiB", "MiB", "GiB"}, 1024.0); }

}  // namespace diptych::profiler
