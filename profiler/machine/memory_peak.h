#pragma once

#include <optional>

#include "profiler/machine/system_files.h"

/// The peak resident memory of this process. [proc(5): clear_refs, VmHWM; the kernel keeps the counts per CPU and adds
/// them up from time to time, so they may be off by some hundred KiB]
namespace diptych::profiler {

/// Resets the peak to the memory resident now. False if /proc doesn't allow it.
bool reset_peak_rss(const SystemFiles& files = SystemFiles());

/// Bytes, since the last reset or the start of the process; nullopt if unknown.
std::optional<double> peak_rss_bytes(const SystemFiles& files = SystemFiles());

}  // namespace diptych::profiler
