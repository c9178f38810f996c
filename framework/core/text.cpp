#include "framework/core/text.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace diptych {
namespace {

constexpr char32_t replacement = 0xFFFD;

struct Range {
  char32_t first, last;
};

template <std::size_t N>
bool in_ranges(char32_t c, const std::array<Range, N>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [c](Range r) { return c >= r.first && c <= r.last; });
}

// Control characters; line and paragraph separators; marks and overrides of writing direction; byte-order mark;
// surrogates.
constexpr std::array<Range, 8> unprintable_ranges = {{{0x00, 0x1F},
                                                      {0x7F, 0x9F},
                                                      {0x200B, 0x200F},
                                                      {0x2028, 0x202E},
                                                      {0x2060, 0x206F},
                                                      {0xFEFF, 0xFEFF},
                                                      {0xFFF9, 0xFFFB},
                                                      {0xD800, 0xDFFF}}};

// The East Asian wide blocks and the emoji, after Unicode TR 11, deliberately coarse.
constexpr std::array<Range, 9> wide_ranges = {{{0x1100, 0x115F},
                                               {0x2E80, 0x303E},
                                               {0x3041, 0xA4CF},
                                               {0xAC00, 0xD7A3},
                                               {0xF900, 0xFAFF},
                                               {0xFE30, 0xFE6F},
                                               {0xFF00, 0xFF60},
                                               {0x1F300, 0x1FAFF},
                                               {0x20000, 0x3FFFD}}};

constexpr std::array<Range, 5> combining_ranges = {
    {{0x0300, 0x036F}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};

bool is_unprintable(char32_t c) { return in_ranges(c, unprintable_ranges) || (c & 0xFFFE) == 0xFFFE; }

int width_of(char32_t c) {
  if (in_ranges(c, combining_ranges)) {
    return 0;
  }
  return in_ranges(c, wide_ranges) ? 2 : 1;
}

void append_utf8(std::string& out, char32_t c) {
  const auto byte = [&out](char32_t value) { out.push_back(static_cast<char>(static_cast<unsigned char>(value))); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xC0 | (c >> 6));
    byte(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    byte(0xE0 | (c >> 12));
    byte(0x80 | ((c >> 6) & 0x3F));
    byte(0x80 | (c & 0x3F));
  } else {
    byte(0xF0 | (c >> 18));
    byte(0x80 | ((c >> 12) & 0x3F));
    byte(0x80 | ((c >> 6) & 0x3F));
    byte(0x80 | (c & 0x3F));
  }
}

}  // namespace

char32_t next_code_point(std::string_view text, std::size_t& position) {
  const auto byte_at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte_at(position++);
  if (lead < 0x80) {
    return lead;
  }
  const std::size_t more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  if (lead < 0xC2 || lead > 0xF4 || position + more > text.size()) {
    return replacement;
  }
  char32_t c = lead & (0x3Fu >> more);
  for (std::size_t i = 0; i < more; ++i) {
    if ((byte_at(position + i) & 0xC0) != 0x80) {
      return replacement;
    }
    c = (c << 6) | (byte_at(position + i) & 0x3Fu);
  }
  constexpr std::array<char32_t, 4> smallest = {0, 0x80, 0x800, 0x10000};
  if (c < smallest[more] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) {
    return replacement;
  }
  position += more;
  return c;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t position = 0; position < text.size();) {
    const char32_t c = next_code_point(text, position);
    if (!is_unprintable(c)) {
      append_utf8(out, c);
    } else if (c <= 0xFF) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    }
  }
  return out;
}

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t position = 0; position < text.size();) {
    width += width_of(next_code_point(text, position));
  }
  return width;
}

std::string padded(std::string_view text, int columns) {
  return std::string(text) + std::string(static_cast<std::size_t>(std::max(0, columns - display_width(text))), ' ');
}

std::string shorten(std::string_view text, int columns) {
  if (display_width(text) <= columns) {
    return std::string(text);
  }
  constexpr std::string_view mark = "...";
  const int room = std::max(0, columns - static_cast<int>(mark.size()));
  int width = 0;
  std::size_t end = 0;
  for (std::size_t position = 0; position < text.size();) {
    width += width_of(next_code_point(text, position));
    if (width > room) {
      break;
    }
    end = position;
  }
  return std::string(text.substr(0, end)) + std::string(mark.substr(0, static_cast<std::size_t>(std::max(0, columns))));
}

std::string shorten_middle(std::string_view text, int columns) {
  const auto bytes = [](int of) { return 4 * static_cast<std::size_t>(std::max(0, of)); };
  // Combining marks take no columns: a text of few columns can be of any length.
  if (text.size() <= bytes(columns) && display_width(text) <= columns) {
    return std::string(text);
  }
  constexpr std::string_view mark = "...";
  const int room = std::max(0, columns - static_cast<int>(mark.size()));
  const int back = room / 2;
  const auto fits = [&](std::string_view part, int in) {
    return part.size() <= bytes(in) && display_width(part) <= in;
  };
  std::size_t end = 0;
  for (std::size_t position = 0; position < text.size() && position <= bytes(room);) {
    next_code_point(text, position);
    if (!fits(text.substr(0, position), room - back)) {
      break;
    }
    end = position;
  }
  std::size_t start = text.size() - std::min(text.size(), bytes(back));
  while (start < text.size() && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) {
    ++start;  // inside a code point
  }
  while (start < text.size() && !fits(text.substr(start), back)) {
    next_code_point(text, start);
  }
  return std::string(text.substr(0, end)) +
         std::string(mark.substr(0, static_cast<std::size_t>(std::max(0, columns)))) + std::string(text.substr(start));
}

std::vector<int> column_widths(const TextRows& rows) {
  std::vector<int> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  return widths;
}

std::vector<std::string> aligned_lines(const TextRows& rows, std::span<const Align> columns) {
  const std::vector<int> widths = column_widths(rows);
  std::vector<std::string> lines;
  for (const std::vector<std::string>& row : rows) {
    std::string& line = lines.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(static_cast<std::size_t>(widths[i] - display_width(row[i])), ' ');
      line += i == 0 ? "" : "  ";
      line += i < columns.size() && columns[i] == Align::right ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
  }
  return lines;
}

}  // namespace diptych
