#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace diptych::reports::testing {

/// What a name from outside may be: markup, links, control characters, broken UTF-8, 100 kB.
std::vector<std::string> hostile_names();

/// Checks markup with a parser of its own: tags nest and close, attributes are quoted, entities are known, no control
/// characters, valid UTF-8. HTML's void elements and raw text (style, script) count. Returns the first problem, or "".
std::string markup_problem(std::string_view markup);

/// No control characters but newlines, and valid UTF-8. Returns the first problem, or "".
std::string text_problem(std::string_view text);

}  // namespace diptych::reports::testing
