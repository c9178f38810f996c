#pragma once

#include <cstddef>
#include <string>

#include "reports/run/run.h"

/// The charts of one cell as inline SVG; empty if there is nothing to draw. Every colour is accompanied by a number.
namespace diptych::reports {

/// The width of every chart, in SVG units.
inline constexpr double kChartWidth = 560;
/// A time as the charts write it.
std::string time_label(double seconds);

/// Colour class of an arm, "c0" ... "c8": eager and graph have the same one everywhere, the others follow in order.
std::string arm_colour(const std::string& name, std::size_t position);

/// Time per call of each arm, from zero, with interval whiskers.
std::string bars_chart(const Cell& cell);

/// The ladder: from the first arm down to the last, one step per cause.
std::string ladder_chart(const Cell& cell);

/// Every round of every process, in execution order, with each process's median.
std::string rounds_chart(const Cell& cell);

/// Cumulative cost, compile included, against the number of calls, for the main comparison.
std::string break_even_chart(const Cell& cell);

/// The roofs of the machine and a point for each arm, both axes logarithmic; empty without limits.
std::string roofline_chart(const Cell& cell);

}  // namespace diptych::reports
