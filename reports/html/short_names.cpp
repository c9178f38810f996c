#include "reports/html/short_names.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "framework/core/text.h"

namespace diptych::reports {
namespace {

constexpr int name_columns = 400;
constexpr int sentence_columns = 2000;

bool holds_sentences(std::string_view key) {
  constexpr std::array<std::string_view, 7> keys = {"command", "reproduce", "reason",     "detail",
                                                    "failed",  "checks",    "environment"};
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

nlohmann::json shortened(const nlohmann::json& value, int columns) {
  if (value.is_string()) {
    return shorten_middle(value.get_ref<const std::string&>(), columns);
  }
  if (!value.is_structured()) {
    return value;
  }
  nlohmann::json out = value.is_array() ? nlohmann::json::array() : nlohmann::json::object();
  for (const auto& entry : value.items()) {
    if (value.is_array()) {
      out.push_back(shortened(entry.value(), columns));
    } else {
      out[shorten_middle(entry.key(), name_columns)] =
          shortened(entry.value(), holds_sentences(entry.key()) ? sentence_columns : columns);
    }
  }
  return out;
}

}  // namespace

nlohmann::json with_short_names(const nlohmann::json& document) { return shortened(document, name_columns); }

}  // namespace diptych::reports
