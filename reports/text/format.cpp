#include "reports/text/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

namespace diptych::reports {
namespace {

// Decimals that leave `significant` digits. Rounds first, so that 9.996 is shown as 10.0 and not as 10.00.
int decimals_for(double value, int significant = 3) {
  if (value == 0 || !std::isfinite(value)) {
    return 0;
  }
  const std::string rounded = fmt::format("{:.{}e}", std::abs(value), significant - 1);
  return std::clamp(significant - 1 - std::stoi(rounded.substr(rounded.find('e') + 1)), 0, 12);
}

struct Unit {
  double scale;
  const char* ascii;
  const char* typographic;
};

constexpr std::array<Unit, 4> time_units = {
    {{1e-9, "ns", "ns"}, {1e-6, "us", "µs"}, {1e-3, "ms", "ms"}, {1, "s", "s"}}};
constexpr std::array<Unit, 4> byte_units = {
    {{1, "B", "B"}, {1024, "KiB", "KiB"}, {1048576, "MiB", "MiB"}, {1073741824, "GiB", "GiB"}}};

// The largest unit in which the rounded value is at least one.
const Unit& unit_for(double value, const std::array<Unit, 4>& units) {
  for (std::size_t i = units.size() - 1; i > 0; --i) {
    if (std::abs(value) >= 0.9995 * units[i].scale) {
      return units[i];
    }
  }
  return units[0];
}

const char* name(const Unit& unit, Glyphs glyphs) { return glyphs == Glyphs::ascii ? unit.ascii : unit.typographic; }

std::string with_unit(double value, const std::array<Unit, 4>& units, Glyphs glyphs) {
  if (value == 0) {
    return fmt::format("0 {}", &units == &time_units ? "s" : "B");
  }
  const Unit& unit = unit_for(value, units);
  const double scaled = value / unit.scale;
  return fmt::format("{:.{}f} {}", scaled, decimals_for(scaled), name(unit, glyphs));
}

int ratio_decimals(double ratio) {
  return std::abs(ratio) < 0.0995 ? decimals_for(ratio) : std::min(2, decimals_for(ratio));
}

const char* times_sign(Glyphs glyphs) { return glyphs == Glyphs::ascii ? "x" : "×"; }

}  // namespace

std::string format_seconds(std::optional<double> seconds, Glyphs glyphs) {
  return seconds && std::isfinite(*seconds) ? with_unit(*seconds, time_units, glyphs) : "-";
}

std::string format_seconds(const Estimate& seconds, Glyphs glyphs) {
  std::string text = format_seconds(std::optional<double>(seconds.value), glyphs);
  if (seconds.has_interval() && seconds.value != 0) {
    const Unit& unit = unit_for(seconds.value, time_units);
    const int decimals = decimals_for(seconds.value / unit.scale);
    text +=
        fmt::format(" [{:.{}f}, {:.{}f}]", *seconds.low / unit.scale, decimals, *seconds.high / unit.scale, decimals);
  }
  return text;
}

std::string format_ratio(double ratio, Glyphs glyphs) {
  return fmt::format("{:.{}f}{}", ratio, ratio_decimals(ratio), times_sign(glyphs));
}

std::string format_ratio(const Estimate& ratio, Glyphs glyphs) {
  std::string text = format_ratio(ratio.value, glyphs);
  if (ratio.has_interval()) {
    const int decimals = ratio_decimals(ratio.value);
    text += fmt::format(" [{:.{}f}, {:.{}f}]", *ratio.low, decimals, *ratio.high, decimals);
  }
  return text;
}

std::string format_percent(double fraction) {
  const double percent = 100 * fraction;
  return fmt::format("{:.{}f} %", percent, std::abs(percent) < 9.95 && percent != 0 ? 1 : 0);
}

std::string format_bytes(double bytes) {
  if (std::abs(bytes) < 1024) {
    return fmt::format("{:.0f} B", bytes);
  }
  return with_unit(bytes, byte_units, Glyphs::ascii);
}

std::string format_count(double count) {
  if (!std::isfinite(count)) {
    return "-";
  }
  if (count != std::floor(count) || std::abs(count) >= 1e15) {
    return fmt::format("{:.{}f}", count, decimals_for(count));
  }
  std::string digits = fmt::format("{:.0f}", std::abs(count));
  for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), 1, ',');
  }
  return (count < 0 ? "-" : "") + digits;
}

std::string format_spread(const Estimate& estimate) {
  if (!estimate.has_interval() || estimate.value == 0) {
    return "";
  }
  return format_percent(0.5 * (*estimate.high - *estimate.low) / std::abs(estimate.value));
}

std::string format_metric(double value, const std::string& unit, Glyphs glyphs) {
  if (unit == "fraction") {
    return fmt::format("{:.1f} %", 100 * value);
  }
  if (unit == "bytes") {
    return format_bytes(value);
  }
  if (unit == "seconds") {
    return format_seconds(std::optional<double>(value), glyphs);
  }
  const std::string number = fmt::format("{:.4g}", value);
  return unit.empty() ? number : number + " " + unit;
}

}  // namespace diptych::reports
