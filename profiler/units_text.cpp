#include "profiler/units_text.h"

#include <array>
#include <cmath>

#include <fmt/format.h>

namespace diptych::profiler {

namespace {

std::string scaled(double value, std::array<std::string_view, 4> units, double step) {
  std::size_t unit = 0;
  while (std::abs(value) >= step * 0.9995 && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  const double magnitude = std::abs(value);
  const bool whole = unit == 0 && magnitude == std::floor(magnitude);
  const int decimals = whole || magnitude >= 99.95 ? 0 : unit == 0 || magnitude >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

}  // namespace

std::string format_duration(double nanoseconds) { return scaled(nanoseconds, {"ns", "us", "ms", "s"}, 1000.0); }

std::string format_bytes(double bytes) { return scaled(bytes, {"B", "KiB", "MiB", "GiB"}, 1024.0); }

}  // namespace diptych::profiler
