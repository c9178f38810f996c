#include "framework/core/attributes.h"

#include <charconv>

#include <fmt/format.h>

namespace diptych::detail {

std::string print_field(bool value) { return value ? "true" : "false"; }
std::string print_field(std::int64_t value) { return fmt::format("{}", value); }
// The shortest text that reads back to the same double; NaN with a payload is the one exception and is not produced.
std::string print_field(double value) { return fmt::format("{}", value); }
std::string print_field(DType value) { return std::string(name_of(value)); }
std::string print_field(const Dims& value) { return to_string(value); }

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
      return false;  // a comma with nothing behind it
    }
  }
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

}  // namespace diptych::detail
