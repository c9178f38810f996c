#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace diptych::profiler {

/// The kernel's description of an event: type and config of perf_event_attr.
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
  std::string reason;  ///< why there is no encoding
};

/// Software events ("task-clock", "page-faults", "context-switches") need no library. Any other name is a libpfm4 name
/// ("cycles", "instructions", "LONGEST_LAT_CACHE:MISS", "skx::FP_ARITH_INST_RETIRED:SCALAR_SINGLE"). An event that can
/// be encoded can't necessarily be counted on this machine.
EncodedEvent encode_event(std::string_view name);

/// "libpfm4" or "not built with libpfm4"
std::string event_library();

}  // namespace diptych::profiler
