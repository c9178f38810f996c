#include "profiler/text_table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace diptych::profiler {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// Bytes of the UTF-8 character that `text` starts with; 0 if it is none. Overlong forms and surrogates pass: they do
/// no harm on a terminal.
std::size_t character_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = lead < 0x80U                    ? 1
                             : lead >= 0xC2U && lead < 0xE0U ? 2
                             : lead >= 0xE0U && lead < 0xF0U ? 3
                             : lead >= 0xF0U && lead < 0xF5U ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) {
    return 0;
  }
  return std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(length), continues) ? length : 0;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) {
    return first < 0x20U || first == 0x7FU;
  }
  return first == 0xC2U && static_cast<unsigned char>(character[1]) < 0xA0U;  // C1 controls
}

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

std::string printable(std::string_view text, std::size_t max_width) {
  std::string result;
  std::size_t width = 0;
  while (!text.empty()) {
    if (width + 1 == max_width && display_width(text) > 1) {
      return result + "…";
    }
    const std::size_t length = character_length(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, length));
    result += length == 0 ? replacement : is_control(character) ? std::string_view("?") : character;
    text.remove_prefix(character.size());
    ++width;
  }
  return result;
}

std::size_t display_width(std::string_view printable_text) {
  return static_cast<std::size_t>(
      std::count_if(printable_text.begin(), printable_text.end(), [](char byte) { return !continues(byte); }));
}

std::string TextTable::render() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - display_width(row[i]), ' ');
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
