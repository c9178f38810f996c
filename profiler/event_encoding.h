#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace diptych::profiler {

/// How the kernel names an event: perf_event_attr's type and config.
struct EventEncoding {
  std::uint32_t type = 0;
  std::uint64_t config = 0;
  std::uint64_t config1 = 0;
  std::uint64_t config2 = 0;
  bool software = false;
  std::string full_name;
};

struct EncodedEvent {
  std::optional<EventEncoding> encoding;
  std::string reason;  ///< why there is none
};

/// Software events ("task-clock", "page-faults", "context-switches") need no library. All else is a libpfm4 name
/// ("cycles", "instructions", "LONGEST_LAT_CACHE:MISS", "skx::FP_ARITH_INST_RETIRED:SCALAR_SINGLE").
/// That an event encodes doesn't mean that this machine can count it.
EncodedEvent encode_event(std::string_view name);

/// "libpfm4" or "not built with libpfm4"
std::string event_library();

}  // namespace diptych::profiler
