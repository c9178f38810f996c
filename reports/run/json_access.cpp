#include "reports/run/json_access.h"

#include <algorithm>
#include <cstdint>

namespace diptych::reports {

const Json& member(const Json& object, const std::string& key) {
  static const Json nothing;
  if (!object.is_object()) {
    return nothing;
  }
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

const Json& list(const Json& object, const std::string& key) {
  static const Json empty = Json::array();
  const Json& value = member(object, key);
  return value.is_array() ? value : empty;
}

std::string text(const Json& object, const std::string& key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<double> number(const Json& object, const std::string& key) {
  const Json& value = member(object, key);
  return value.is_number() ? std::optional<double>(value.get<double>()) : std::nullopt;
}

std::optional<Estimate> estimate(const Json& value) {
  const std::optional<double> centre = number(value, "estimate");
  if (!centre) {
    return std::nullopt;
  }
  return Estimate{*centre, number(value, "low"), number(value, "high"), number(value, "level").value_or(0.95)};
}

Json to_json(const std::optional<double>& number) { return number ? Json(*number) : Json(nullptr); }

int whole_count(double count) { return static_cast<int>(std::clamp(count, 0.0, 1e9)); }

Json count_json(const std::optional<double>& count) {
  constexpr double kMost = 9e18;  // of a number of 64 bits
  return count ? Json(static_cast<std::int64_t>(std::clamp(*count, -kMost, kMost))) : Json(nullptr);
}

Json to_json(const std::optional<Estimate>& estimate) {
  if (!estimate) {
    return nullptr;
  }
  return {{"estimate", estimate->value},
          {"low", to_json(estimate->low)},
          {"high", to_json(estimate->high)},
          {"level", estimate->level}};
}

}  // namespace diptych::reports
