#include "framework/core/attributes.h"

#include <charconv>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "framework/core/text.h"

namespace diptych {

const char* intern(std::string_view text) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> strings;
  const std::lock_guard lock(mutex);
  const auto found = strings.find(text);
  return (found != strings.end() ? found : strings.emplace(text).first)->c_str();
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t start = position;
    const char32_t c = next_code_point(text, position);
    const std::string_view bytes = text.substr(start, position - start);
    constexpr char32_t kBroken = 0xFFFD;
    if (c == '"' || c == '\\') {
      result += fmt::format("\\{}", bytes);
    } else if ((c >= 0x20 && c < 0x7F) || (printable(bytes) == bytes && (c != kBroken || bytes.size() > 1))) {
      result += bytes;
    } else {  // byte by byte, so that invalid UTF-8 reads back too
      for (const char byte : bytes) {
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
  }
  return result + "\"";
}

bool unquote(std::string_view literal, std::string& text) {
  text.clear();
  if (literal.size() < 2 || literal.front() != '"' || literal.back() != '"') {
    return false;
  }
  literal = literal.substr(1, literal.size() - 2);
  while (!literal.empty()) {
    char c = literal[0];
    literal.remove_prefix(1);
    if (c == '"') {
      return false;
    }
    if (c == '\\') {
      if (literal.empty()) {
        return false;  // the closing quote was escaped
      }
      c = literal[0];
      literal.remove_prefix(1);
      if (c == 'x') {
        unsigned code = 0;
        const std::string_view digits = literal.substr(0, 2);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
        if (error != std::errc() || end != digits.data() + 2) {
          return false;
        }
        literal.remove_prefix(2);
        c = static_cast<char>(code);
      }
    }
    text += c;
  }
  return true;
}

namespace detail {

std::string print_field(bool value) { return value ? "true" : "false"; }
std::string print_field(std::int64_t value) { return fmt::format("{}", value); }
// The shortest text that reads back to the same double; NaN with a payload is the one exception and is not produced.
std::string print_field(double value) { return fmt::format("{}", value); }
std::string print_field(DType value) { return std::string(name_of(value)); }
std::string print_field(const Dims& value) { return to_string(value); }
std::string print_field(InternedText value) { return quote(value.c_str()); }

bool parse_field(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}

bool parse_field(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_field(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_field(std::string_view text, DType& value) {
  const auto dtype = parse_dtype(text);
  value = dtype.value_or(DType::float32);
  return dtype.has_value();
}

bool parse_field(std::string_view text, Dims& value) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
    return false;
  }
  text = text.substr(1, text.size() - 2);
  value = Dims();
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::int64_t element = 0;
    if (!parse_field(text.substr(0, comma), element) || value.rank() == kMaxRank) {
      return false;
    }
    value.push_back(element);
    if (comma == std::string_view::npos) {
      return true;
    }
    text.remove_prefix(comma + 1);
    if (text.empty()) {
      return false;  // a comma with nothing after it
    }
  }
  return true;
}

bool parse_field(std::string_view text, InternedText& value) {
  std::string content;
  if (!unquote(text, content)) {
    return false;
  }
  value = InternedText(content);
  return true;
}

bool equal_field(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

std::size_t hash_field(std::int64_t value) { return static_cast<std::size_t>(value) * 0xBF58476D1CE4E5B9ULL; }
std::size_t hash_field(double value) { return hash_field(std::bit_cast<std::int64_t>(value)); }
std::size_t hash_field(const Dims& value) {
  std::size_t result = static_cast<std::size_t>(value.rank());
  for (std::int64_t element : value) {
    result = result * 31 + hash_field(element);
  }
  return result;
}

std::size_t hash_field(InternedText value) { return std::hash<std::string_view>()(value.c_str()); }

}  // namespace detail
}  // namespace diptych
