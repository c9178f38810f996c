#include "framework/io/json_text.h"

#include <optional>

#include <fmt/format.h>

namespace diptych::io {
namespace {

/// Where the first level beyond kDeepestJson opens. Right for JSON; behind the first fault of a text that is none, the
/// parser doesn't look.
std::optional<std::size_t> too_deep_at(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      in_string = c != '"';
      i += c == '\\' ? 1 : 0;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson) {
        return i;
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return std::nullopt;
}

}  // namespace

JsonTooDeep::JsonTooDeep(std::size_t byte)
    : FileError(fmt::format("its values nest deeper than {} levels, at byte {}", kDeepestJson, byte)) {}

nlohmann::json parse_json_text(std::string_view text) {
  if (const auto byte = too_deep_at(text)) {
    throw JsonTooDeep(*byte);
  }
  return nlohmann::json::parse(text);
}

nlohmann::json json_or_discarded(std::string_view text) {
  return too_deep_at(text) ? nlohmann::json(nlohmann::json::value_t::discarded)
                           : nlohmann::json::parse(text, nullptr, false);
}

}  // namespace diptych::io
