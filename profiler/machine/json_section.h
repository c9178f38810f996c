#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace diptych::profiler {

/// Builds one section of the fingerprint; a missing value becomes null, and its reason goes to "reasons".
class JsonSection {
 public:
  template <typename T>
  void set(const std::string& field, T&& value) {
    json_[field] = std::forward<T>(value);
  }

  template <typename T>
  void set_or_null(const std::string& field, const std::optional<T>& value, const std::string& reason) {
    if (value) {
      json_[field] = *value;
    } else {
      json_[field] = nullptr;
      json_["reasons"][field] = reason;
    }
  }

  void set_or_null(const std::string& field, double value, const std::string& reason) {
    set_or_null(field, std::isnan(value) ? std::nullopt : std::optional(value), reason);
  }

  [[nodiscard]] nlohmann::json take() && { return std::move(json_); }

 private:
  nlohmann::json json_ = nlohmann::json::object();
};

}  // namespace diptych::profiler
