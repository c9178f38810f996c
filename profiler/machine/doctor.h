#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace diptych::profiler {

struct Finding {
  enum class Level { good, note, warning };
  /// What the machine can measure, or what makes its measurements noisy.
  enum class Section { ability, noise };

  Level level = Level::note;
  std::string topic;    ///< "hardware counters", "frequency", ...
  std::string message;  ///< what was found
  std::string advice;   ///< what to do about it; empty if nothing
  Section section = Section::noise;
};

struct Diagnosis {
  std::vector<Finding> findings;
  /// The basis of the findings: {"fingerprint", "counters", "noise", "disk_free_bytes"}.
  nlohmann::json details;
};

/// Examines this machine; takes about 0.5 s, most of which keeps one core busy. `output_folder`: where results will be
/// written.
Diagnosis diagnose(const std::filesystem::path& output_folder = ".");

/// The judgement without the measurements: `details` as in Diagnosis. Missing or null fields count as unknown.
std::vector<Finding> judge(const nlohmann::json& details);

/// What the machine can measure, then what makes it noisy and what to do about it, in aligned columns.
std::string render(const Diagnosis& diagnosis, bool colour);

}  // namespace diptych::profiler
