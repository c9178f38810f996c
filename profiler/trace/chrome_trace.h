#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "profiler/trace/trace.h"

namespace diptych::profiler {

/// What the zones of a source op say of it, besides "External id".
struct OpArguments {
  std::vector<std::string> reads = {};                     ///< "Reads": a graph's inputs by name (weights, arguments)
  std::vector<std::vector<std::int64_t>> input_dims = {};  ///< "Input Dims"
  std::vector<std::string> input_types = {};               ///< "Input type", as PyTorch spells them: "long int"
  std::optional<std::uint64_t> sequence = {};              ///< "Sequence number": an op's and its gradient's are equal
};

/// An arrow from a zone to one that begins later, by their indices. Viewers find arrows by name.
struct Flow {
  std::string name;
  std::size_t from = 0, to = 0;
};

struct ChromeTraceOptions {
  /// chrome://tracing stops at 256 MB, and becomes slow long before.
  std::uint64_t max_bytes = 100'000'000;
  std::map<std::uint64_t, OpArguments> arguments = {};  ///< by source op
  /// Of each zone, several of a fused kernel's; empty: the zones' own.
  std::vector<std::vector<std::uint64_t>> source_ops = {};
  std::vector<Flow> flows = {};
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
