#pragma once

#include <string_view>

namespace diptych::reports {

/// Whether `svg` is a drawing and nothing else: shapes, text and its own style sheet, with tags that close. Scripts,
/// links, event handlers and anything loaded from elsewhere are refused. The content of text doesn't matter, because it
/// is escaped.
bool is_plain_svg(std::string_view svg);

}  // namespace diptych::reports
