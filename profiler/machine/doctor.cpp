#include "profiler/machine/doctor.h"

#include <cmath>
#include <system_error>

#include "profiler/counters/counters.h"
#include "profiler/machine/fingerprint.h"
#include "profiler/machine/noise_probe.h"

namespace diptych::profiler {

namespace {

nlohmann::json number_or_null(double value) { return std::isfinite(value) ? nlohmann::json(value) : nullptr; }

nlohmann::json counter_details() {
  const CounterSupport support = probe_counters();
  nlohmann::json details = {{"hardware", support.hardware}, {"hardware_reason", support.hardware_reason},
                            {"software", support.software}, {"software_reason", support.software_reason},
                            {"library", support.library},   {"sanity_ratio", nullptr}};
  if (support.sanity_ratio) {
    details["sanity_ratio"] = *support.sanity_ratio;
  }
  return details;
}

nlohmann::json noise_details() {
  const NoiseProbe probe = probe_noise();
  return {{"samples", probe.samples},
          {"median_ns", probe.median_ns},
          {"coefficient_of_variation", probe.coefficient_of_variation},
          {"worst_over_median", probe.worst_over_median},
          {"steal_fraction", number_or_null(probe.steal_fraction)}};
}

nlohmann::json disk_free_bytes(const std::filesystem::path& folder) {
  std::error_code error;
  const auto space = std::filesystem::space(folder, error);
  return error ? nlohmann::json(nullptr) : nlohmann::json(space.available);
}

}  // namespace

Diagnosis diagnose(const std::filesystem::path& output_folder) {
  Diagnosis diagnosis;
  diagnosis.details = {{"fingerprint", environment_fingerprint()},
                       {"counters", counter_details()},
                       {"noise", noise_details()},
                       {"disk_free_bytes", disk_free_bytes(output_folder)}};
  diagnosis.findings = judge(diagnosis.details);
  return diagnosis;
}

}  // namespace diptych::profiler
