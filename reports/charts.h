#pragma once

#include <cstddef>
#include <string>

#include <nlohmann/json.hpp>

/// The charts of one cell as inline SVG; empty when there is nothing to draw. A number stands beside every colour.
namespace diptych::reports {

/// Every chart's, in SVG units.
inline constexpr double kChartWidth = 560;
/// A time as charts write it.
std::string time_label(double seconds);

/// Colour class of an arm, "c0" ... "c8": eager and graph are the same everywhere, the others follow in order.
std::string arm_colour(const std::string& name, std::size_t position);

/// Time per call of each arm, from zero, with interval whiskers.
std::string bars_chart(const nlohmann::json& cell);

/// The ladder: from the first arm down to the last, one step per cause.
std::string ladder_chart(const nlohmann::json& cell);

/// Every round of every process, in the order in which it ran, with each process's median.
std::string rounds_chart(const nlohmann::json& cell);

/// Cumulative cost, compile included, against the number of calls, for the main comparison.
std::string break_even_chart(const nlohmann::json& cell);

}  // namespace diptych::reports
