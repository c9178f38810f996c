#pragma once

#include <nlohmann/json.hpp>

#include "profiler/machine/system_files.h"

/// Everything besides the code that a number may depend on: stored with every run, and compared when two runs are
/// compared.
namespace diptych::profiler {

/// {"cpu": ..., "os": ..., "process": ..., "build": ..., "clock": ...}. Unknown values are null, with the reason in the
/// section's "reasons". Takes about 0.1 s: it looks up the packages of the loaded libraries, and hashes the program the
/// first time. Never throws because a machine lacks something.
nlohmann::json environment_fingerprint(const SystemFiles& files = SystemFiles());

/// The sections. Clocks in MHz, sizes in bytes, times in seconds unless the field's name says otherwise.
nlohmann::json cpu_fingerprint(const SystemFiles& files);
nlohmann::json os_fingerprint(const SystemFiles& files);
nlohmann::json process_fingerprint();
nlohmann::json build_fingerprint(const SystemFiles& files);

/// CPUs' worth of time that the control group may use; nullopt: no limit. cgroup v2 and v1.
std::optional<double> cgroup_cpu_quota(const SystemFiles& files);

}  // namespace diptych::profiler
