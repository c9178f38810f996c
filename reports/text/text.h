#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "framework/core/text.h"

/// Text of a run in the languages of the views. Every view goes through these functions.
namespace diptych::reports {

using diptych::display_width;
using diptych::next_code_point;
using diptych::padded;
using diptych::printable;
using diptych::shorten;

/// Rows for a terminal, with aligned columns; lines that are too long are cut.
std::string aligned(const TextRows& rows, int width);

/// A name as a word of a shell, for commands to copy: names of files may hold anything. Printable.
std::string shell_word(const std::string& name);

/// `printable`, and safe as text and as a quoted attribute in HTML, XML and SVG.
std::string escape_xml(std::string_view text);

/// `printable`, and without meaning in Markdown: no markup, no HTML, no table cell, no mention, no link.
std::string escape_markdown(std::string_view text);

/// `printable`, as a block of code in Markdown: the fence is longer than any run of backticks inside.
std::string markdown_code_block(std::string_view text);

}  // namespace diptych::reports
