#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Names of models, files, ops and machines are hostile input: what is printed goes through these functions.
namespace diptych {

/// The code point at `position`, which moves past it; broken UTF-8 gives U+FFFD and moves one byte.
char32_t next_code_point(std::string_view text, std::size_t& position);

/// One line of valid UTF-8: control, bidirectional and non-characters become visible escapes ("\x1b", "\u202e"), so
/// that no name can move a cursor, colour a terminal, break a table or reverse a line.
std::string printable(std::string_view text);

/// Columns that a terminal needs for printable UTF-8: 2 for East Asian wide and emoji, 0 for combining marks.
int display_width(std::string_view text);

/// `text` with spaces behind it, to `columns` at least.
std::string padded(std::string_view text, int columns);

/// `text` cut to at most `columns`, with "..." as the mark of the cut. Cuts between code points.
std::string shorten(std::string_view text, int columns);

}  // namespace diptych
