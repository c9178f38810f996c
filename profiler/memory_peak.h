#pragma once

#include <optional>

#include "profiler/system_files.h"

/// The most memory that this process had resident. [proc(5): clear_refs, VmHWM; the kernel keeps the counts per CPU and
/// adds them up now and then, so they may be some hundred KiB off]
namespace diptych::profiler {

/// Lets the peak start again at what is resident now. False where /proc doesn't allow it.
bool reset_peak_rss(const SystemFiles& files = SystemFiles());

/// Bytes, since the last reset or the start of the process; nullopt if unknown.
std::optional<double> peak_rss_bytes(const SystemFiles& files = SystemFiles());

}  // namespace diptych::profiler
