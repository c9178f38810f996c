#include "framework/io/path_text.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/core/text.h"

namespace diptych::io {
namespace {

constexpr std::string_view kEscape = "\\x";
constexpr std::size_t kEscapeLength = 4;  // "\xff"

std::optional<char> escaped_byte(std::string_view text) {
  if (!text.starts_with(kEscape) || text.size() < kEscapeLength) {
    return std::nullopt;
  }
  std::uint8_t byte = 0;
  const char* const end = text.data() + kEscapeLength;
  const auto [stop, error] = std::from_chars(text.data() + kEscape.size(), end, byte, 16);
  return error == std::errc() && stop == end ? std::optional(static_cast<char>(byte)) : std::nullopt;
}

}  // namespace

std::string text_of_path(std::string_view path) {
  std::string text;
  for (std::size_t position = 0; position < path.size();) {
    const std::size_t start = position;
    constexpr char32_t kBroken = 0xFFFD;
    const bool is_byte = next_code_point(path, position) == kBroken && position == start + 1;
    const std::string_view bytes = path.substr(start, position - start);
    text += is_byte ? fmt::format("{}{:02x}", kEscape, static_cast<unsigned char>(bytes[0])) : std::string(bytes);
  }
  return text;
}

std::filesystem::path path_of_text(const std::string& text) {
  std::string path;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = escaped_byte(std::string_view(text).substr(i));
    path += byte.value_or(text[i]);
    i += byte ? kEscapeLength : 1;
  }
  std::error_code ignored;
  if (path == text || !std::filesystem::exists(path, ignored)) {
    return text;
  }
  if (std::filesystem::exists(text, ignored)) {
    throw FileError(fmt::format(
        "'{}' may be two files: one is called so, the other has bytes that aren't UTF-8; rename one of them",
        printable(text)));
  }
  return path;
}

}  // namespace diptych::io
