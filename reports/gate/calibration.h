#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "reports/gate/documents.h"

/// A/A: repeated gates with the same program on both sides. How often they were wrong on this machine is the basis for
/// what the gate claims of times. The document is "diptych.aa/1".
namespace diptych::reports {

inline constexpr const char* calibration_schema_id = "diptych.aa/1";

/// Times decide in a gate only if the share of A/A runs that alarm is at most this, at 95 %: 20 runs without an alarm
/// bound it at 14 %, 59 at 5 %, 299 at 1 %.
inline constexpr double calibration_bound = 0.15;

/// A document without runs. `design`: what all runs have in common ("workloads", "arms", "size", "alpha").
nlohmann::json new_calibration(const nlohmann::json& environment, const nlohmann::json& design);

/// Adds one A/A run, that is its two sides and the gate's document, and updates "summary": runs, alarms, how many
/// couldn't tell, the rate with its one-sided Clopper-Pearson bound, and for each cell the median detectable change and
/// its alarms. Runs that couldn't tell (noise) don't count towards the rate.
///
/// If a change was injected into the head (design["injection"]: "time" or "instructions", as a fraction, and the "arms"
/// that have it), it counts instead how often the gate catches it, as "power": of those arms' rows that weren't INVALID
/// or CONTAMINATED and claim to detect a change of this size, how many were REGRESSED, and the rate with its lower
/// bound.
void add_calibration_run(nlohmann::json& calibration, const nlohmann::json& base, const nlohmann::json& head,
                         const GateDocument& gate);

/// Simulates `resamples` gates from the paired effects of all A/A runs, drawn again at random; see false_positive.h.
/// {"resamples", "seed", "rate", "upper_95"}; null without runs.
nlohmann::json resampled_gates(const CalibrationDocument& calibration, int resamples, std::uint64_t seed);

/// Throws Error if the document isn't a calibration of this version, or if it belongs to another machine or design than
/// the run that is about to be appended.
void check_calibration(const CalibrationDocument& calibration);

struct CalibrationMatch {
  bool holds = false;
  std::string note;  ///< one sentence: what it bounds, or why it doesn't hold
};

/// Whether the calibration was made on the machine and with the major version that `environment` names, and bounds the
/// rate.
CalibrationMatch match_calibration(const CalibrationDocument& calibration, const nlohmann::json& environment);

}  // namespace diptych::reports
