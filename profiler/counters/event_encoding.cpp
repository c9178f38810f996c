#include "profiler/counters/event_encoding.h"

#include <array>
#include <linux/perf_event.h>

#include <fmt/format.h>

#ifdef DIPTYCH_WITH_PFM
#include <cstdlib>
#include <memory>
#include <mutex>

#include <perfmon/pfmlib_perf_event.h>
#endif

namespace diptych::profiler {

namespace {

struct SoftwareEvent {
  std::string_view name;
  std::uint64_t config;
};
constexpr std::array software_events{SoftwareEvent{"task-clock", PERF_COUNT_SW_TASK_CLOCK},
                                     SoftwareEvent{"page-faults", PERF_COUNT_SW_PAGE_FAULTS},
                                     SoftwareEvent{"context-switches", PERF_COUNT_SW_CONTEXT_SWITCHES}};

#ifdef DIPTYCH_WITH_PFM

/// libpfm4 is initialised once and never terminated, because it only holds tables. It isn't documented as thread-safe.
std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

int initialise_library() {
  static const int status = pfm_initialize();
  return status;
}

EncodedEvent encode_by_library(std::string_view name) {
  const std::lock_guard lock(library_mutex());
  if (const int status = initialise_library(); status != PFM_SUCCESS) {
    return {std::nullopt, fmt::format("libpfm4 cannot start: {}", pfm_strerror(status))};
  }
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  char* full_name = nullptr;
  pfm_perf_encode_arg_t request{};
  request.size = sizeof(request);
  request.attr = &attributes;
  request.fstr = &full_name;
  const int status = pfm_get_os_event_encoding(std::string(name).c_str(), PFM_PLM3, PFM_OS_PERF_EVENT, &request);
  const std::unique_ptr<char, decltype(&std::free)> owned(full_name, std::free);
  if (status != PFM_SUCCESS) {
    return {std::nullopt,
            fmt::format("libpfm4 knows no event \"{}\" for this processor: {}", name, pfm_strerror(status))};
  }
  return {EventEncoding{attributes.type, attributes.config, attributes.config1, attributes.config2,
                        attributes.type == PERF_TYPE_SOFTWARE, full_name != nullptr ? full_name : std::string(name)},
          {}};
}

#endif

}  // namespace

EncodedEvent encode_event(std::string_view name) {
  for (const SoftwareEvent& event : software_events) {
    if (event.name == name) {
      return {EventEncoding{PERF_TYPE_SOFTWARE, event.config, 0, 0, true, std::string(name)}, {}};
    }
  }
#ifdef DIPTYCH_WITH_PFM
  return encode_by_library(name);
#else
  return {std::nullopt, event_library()};
#endif
}

std::string event_library() {
#ifdef DIPTYCH_WITH_PFM
  return "libpfm4";
#else
  return "not built with libpfm4";
#endif
}

}  // namespace diptych::profiler
