#pragma once

#include <string>

namespace diptych::profiler {

/// "812 ns", "1.24 us", "17.3 ms", "2.50 s"; keeps a minus sign.
std::string format_duration(double nanoseconds);

/// "512 B", "64.0 KiB", "3.20 GiB"
std::string format_bytes(double bytes);

}  // namespace diptych::profiler
