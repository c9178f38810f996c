#pragma once

#include <optional>
#include <string>

#include "reports/statistics/statistics.h"

/// Number formats for readers, the same in every view.
namespace diptych::reports {

/// ascii for terminals and logs ("us", "x"); typographic for pages ("µs", "×").
enum class Glyphs { ascii, typographic };

/// Seconds with three significant digits: "85.0 ns", "1.23 us", "12.3 ms", "4.56 s". Unknown: "-".
std::string format_seconds(std::optional<double> seconds, Glyphs glyphs = Glyphs::ascii);
/// With the interval in the estimate's unit: "12.3 us [11.9, 12.8]".
std::string format_seconds(const Estimate& seconds, Glyphs glyphs = Glyphs::ascii);

/// "1.41x".
std::string format_ratio(double ratio, Glyphs glyphs = Glyphs::ascii);
/// "1.41x [1.35, 1.47]".
std::string format_ratio(const Estimate& ratio, Glyphs glyphs = Glyphs::ascii);

/// A fraction as a percentage: 0.66 -> "66 %", 0.013 -> "1.3 %".
std::string format_percent(double fraction);
/// Bytes: "96 B", "257 KiB", "1.50 MiB".
std::string format_bytes(double bytes);
/// Grouped by thousands: "12,345"; numbers that aren't whole keep three significant digits.
std::string format_count(double count);
/// The interval as a relative half width: "4.2 %"; empty without an interval.
std::string format_spread(const Estimate& estimate);
/// A value in the unit that its metric states; "fraction", "bytes" and "seconds" are made readable.
std::string format_metric(double value, const std::string& unit, Glyphs glyphs = Glyphs::ascii);

}  // namespace diptych::reports
