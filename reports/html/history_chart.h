#pragma once

#include <cstddef>
#include <string>

#include "reports/history/history.h"

/// The times of a series as inline SVG, run by run; the table beside it has every number. Empty if nothing was timed.
namespace diptych::reports {

/// Points that a picture has room for: the newest.
inline constexpr std::size_t kPointsShown = 60;

/// For a row of a table: no axis. It is at least 6 % high, so that noise doesn't look like news.
std::string sparkline(const HistorySeries& series);

/// With axes, intervals and the levels.
std::string history_chart(const History& history, const HistorySeries& series);

}  // namespace diptych::reports
