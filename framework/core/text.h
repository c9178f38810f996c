#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Names of models, files, ops and machines are hostile input: everything printed goes through these functions.
namespace diptych {

/// The code point at `position`, which is advanced past it; broken UTF-8 gives U+FFFD and advances one byte.
char32_t next_code_point(std::string_view text, std::size_t& position);

/// One line of valid UTF-8: control characters, bidirectional characters and non-characters become visible escapes
/// ("\x1b", "\u202e"), so that no name can move a cursor, colour a terminal, break a table or reverse a line.
std::string printable(std::string_view text);

/// The number of terminal columns of printable UTF-8: 2 for East Asian wide and emoji, 0 for combining marks.
int display_width(std::string_view text);

/// `text` padded with trailing spaces to at least `columns`.
std::string padded(std::string_view text, int columns);

/// `text` cut between code points to at most `columns`, with "..." where it was cut.
std::string shorten(std::string_view text, int columns);

/// The same with the cut in the middle, because paths of modules and tensors differ at their ends. Any text of any
/// length: the result has at most 4 bytes per column.
std::string shorten_middle(std::string_view text, int columns);

/// A table's cells, printable.
using TextRows = std::vector<std::vector<std::string>>;

/// The terminal columns of the widest cell in each column of a table.
std::vector<int> column_widths(const TextRows& rows);

enum class Align : unsigned char { left, right };

/// The rows as lines: columns as wide as their widest cell, two spaces between them, no trailing spaces. Columns
/// without an alignment are aligned to the left.
std::vector<std::string> aligned_lines(const TextRows& rows, std::span<const Align> columns = {});

}  // namespace diptych
