#pragma once

#include <cstdint>
#include <iosfwd>

#include "profiler/trace.h"

namespace diptych::profiler {

struct ChromeTraceOptions {
  /// chrome://tracing stops at 256 MB, and gets slow long before.
  std::uint64_t max_bytes = 100'000'000;
};

struct ChromeTraceSummary {
  std::uint64_t bytes = 0;
  std::uint64_t events = 0;          ///< zones and counter samples written
  std::uint64_t events_dropped = 0;  ///< left out to keep to max_bytes: the latest ones
};

/// Writes `trace` as Chrome trace-event JSON, for Perfetto (ui.perfetto.dev), chrome://tracing, and tools that read
/// torch traces. Times are microseconds with three decimals, printed from integers, relative to `baseTimeNanoseconds`
/// (Unix time). What was dropped, and why, stands in `otherData`. Throws FileError if the stream fails.
/// [Trace Event Format, Google 2016]
ChromeTraceSummary write_chrome_trace(const Trace& trace, std::ostream& out, const ChromeTraceOptions& options = {});

}  // namespace diptych::profiler
