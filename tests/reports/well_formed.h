#pragma once

#include <string>
#include <string_view>

namespace diptych::reports::testing {

/// Checks markup with a parser of its own: tags nest and close, attributes are quoted, entities are known, no control
/// characters, valid UTF-8. HTML's void elements and raw text (style, script) count. Returns the first problem, or "".
std::string markup_problem(std::string_view markup);

/// No control characters but newlines, and valid UTF-8. Returns the first problem, or "".
std::string text_problem(std::string_view text);

}  // namespace diptych::reports::testing
