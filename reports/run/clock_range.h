#pragma once

#include <string>

#include <nlohmann/json.hpp>

/// What a clock can measure. Charts, logarithms and sums are sound for all of that; what lies outside is damage.
namespace diptych::reports {

/// Of a call, as part of a block of them: a femtosecond to thirty years.
inline constexpr double kLeastSeconds = 1e-15;
inline constexpr double kMostSeconds = 1e9;

/// Of a run that fits the schema: "/cells/0/arms/1/seconds/estimate is -1 s: ..." for the first figure of time that
/// can't be; empty if all can. Differences of times may be negative, and as small as rounding makes them.
std::string outside_clock_range(const nlohmann::json& run);

}  // namespace diptych::reports
