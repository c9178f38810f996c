#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "reports/statistics/statistics.h"

/// Reads JSON without trusting it: a missing or null member is an empty answer, never an exception. Keys are
/// std::string, because an arm's name is a key and may hold a NUL. The members of a run file are read through run.h.
namespace diptych::reports {

using Json = nlohmann::json;

/// The member, or a null value.
const Json& member(const Json& object, const std::string& key);
/// The member as an array; an empty one if it isn't an array.
const Json& list(const Json& object, const std::string& key);
std::string text(const Json& object, const std::string& key);
std::optional<double> number(const Json& object, const std::string& key);
/// {"estimate", "low", "high", "level"}; empty if null.
std::optional<Estimate> estimate(const Json& value);
Json to_json(const std::optional<Estimate>& estimate);
Json to_json(const std::optional<double>& number);
/// A count from a file, where it may be any number: 0 to 10^9.
int whole_count(double count);
/// A whole number.
Json count_json(const std::optional<double>& count);

}  // namespace diptych::reports
