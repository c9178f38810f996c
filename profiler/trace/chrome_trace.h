#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "profiler/trace/trace.h"

namespace diptych::profiler {

struct ChromeTraceOptions {
  /// chrome://tracing stops at 256 MB, and becomes slow long before.
  std::uint64_t max_bytes = 100'000'000;
  /// By source op: the names of the graph's inputs that it reads (weights, arguments), for "Reads" in its zones.
  std::map<std::uint64_t, std::vector<std::string>> reads = {};
};

struct ChromeTraceSummary {
  std::uint64_t bytes = 0;
  std::uint64_t events = 0;          ///< zones and counter samples written
  std::uint64_t events_dropped = 0;  ///< left out to stay below max_bytes: the latest ones
};

/// Writes `trace` as Chrome trace-event JSON, for Perfetto (ui.perfetto.dev), chrome://tracing, and tools that read
/// torch traces. Times are microseconds with three decimals, printed from integers, relative to `baseTimeNanoseconds`
/// (Unix time). `otherData` reports what was dropped, and why. Throws FileError if the stream fails.
/// [Trace Event Format, Google 2016]
ChromeTraceSummary write_chrome_trace(const Trace& trace, std::ostream& out, const ChromeTraceOptions& options = {});

}  // namespace diptych::profiler
