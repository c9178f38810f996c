#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "reports/statistics.h"

/// Keys are std::string, because an arm's name is a key and may hold a NUL. Reads a run without trusting it: a missing
/// or null member is an empty answer, never an exception.
namespace diptych::reports {

using Json = nlohmann::json;

/// The member, or a null value.
const Json& member(const Json& object, const std::string& key);
/// The member as an array; an empty one when it isn't.
const Json& list(const Json& object, const std::string& key);
std::string text(const Json& object, const std::string& key);
std::optional<double> number(const Json& object, const std::string& key);
/// The strings of an array in one, for example the words of a command.
std::string joined(const Json& array, const char* separator);

/// Whether the run was to time anything: its plan says so, or it has none.
bool is_timed(const Json& run);

/// {"estimate", "low", "high", "level"}; empty when null.
std::optional<Estimate> estimate(const Json& value);
Json to_json(const std::optional<Estimate>& estimate);
Json to_json(const std::optional<double>& number);

}  // namespace diptych::reports
