#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// The version that this build reads and writes, in the member "schema" of every run file.
inline constexpr const char* schema_id = "diptych.run/1";

/// Checks against reports/schema/run.schema.json (JSON Schema draft-07). Returns one line per problem, with the place
/// ("/cells/0/arms/1/seconds: ..."), at most `limit`; empty means valid.
std::vector<std::string> validate(const nlohmann::json& run, std::size_t limit = 20);

}  // namespace diptych::reports
