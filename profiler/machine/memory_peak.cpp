#include "profiler/machine/memory_peak.h"

namespace diptych::profiler {

bool reset_peak_rss(const SystemFiles& files) { return files.write("/proc/self/clear_refs", "5"); }

std::optional<double> peak_rss_bytes(const SystemFiles& files) {
  constexpr double kKibibyte = 1024;
  const auto field = files.read_field("/proc/self/status", "VmHWM");  // "VmHWM:     13596 kB"
  const auto kibibytes = field ? leading_number(*field) : std::nullopt;
  return kibibytes && *kibibytes > 0 ? std::optional(*kibibytes * kKibibyte) : std::nullopt;
}

}  // namespace diptych::profiler
