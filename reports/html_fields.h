#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "reports/html_table.h"

/// What the tables and figures of a cell are made of.
namespace diptych::reports {

/// "12.3 µs [11.9, 12.8]" as the value and, in small print, its interval.
HtmlField split_interval(const std::string& formatted, std::optional<double> sort_value);
/// An estimate of seconds; "-" where there is none.
HtmlField time_field(const nlohmann::json& value);
/// A member in seconds without an interval.
HtmlField plain_time_field(const nlohmann::json& object, const char* key);
/// An estimate of a ratio.
HtmlField ratio_field(const nlohmann::json& value);

/// Empty if the picture is.
std::string figure(const char* title, const char* note, const std::string& picture);
/// A part that folds away; `body` is HTML, the rest is escaped here.
std::string folded(const std::string& title, const std::string& note, const std::string& body, bool open = false);

}  // namespace diptych::reports
