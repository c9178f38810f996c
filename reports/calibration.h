#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

/// A/A: the gate run with the same program on both sides, again and again. What it then claims of times rests on how
/// often it was wrong here, on this machine. The document is "diptych.aa/1".
namespace diptych::reports {

inline constexpr const char* calibration_schema_id = "diptych.aa/1";

/// Times decide in a gate when at most this share of A/A runs can have alarmed, at 95 %: 20 runs without an alarm bound
/// it at 14 %, 59 at 5 %, 299 at 1 %.
inline constexpr double calibration_bound = 0.15;

/// A document without runs. `design`: what all runs share ("workloads", "arms", "size", "alpha").
nlohmann::json new_calibration(const nlohmann::json& environment, const nlohmann::json& design);

/// Whether a change was put into the head.
bool is_power_study(const nlohmann::json& calibration);

/// Adds one A/A run: its two sides and what the gate said of them; renews "summary": runs, alarms, how many couldn't
/// tell, the rate with its one-sided Clopper-Pearson bound, and of each cell the median detectable change and its
/// alarms. Runs that couldn't tell (noise) count in neither.
///
/// With a change put into the head (design["injection"]: "time" or "instructions", a fraction of it, and the "arms"
/// that have it) it counts instead how often the gate catches it, as "power": of the rows of those arms that weren't
/// INVALID or CONTAMINATED and claim to detect so much, how many were REGRESSED, the rate with its lower bound.
void add_calibration_run(nlohmann::json& calibration, const nlohmann::json& base, const nlohmann::json& head,
                         const nlohmann::json& gate);

/// The gates that the paired effects of all A/A runs, drawn again at random, would have made: `resamples` of them, as
/// false_positive.h tells. {"resamples", "seed", "rate", "upper_95"}; null without runs.
nlohmann::json resampled_gates(const nlohmann::json& calibration, int resamples, std::uint64_t seed);

/// Throws Error if it isn't a calibration of this version, or of another machine or design than the one that is about
/// to be appended to.
void check_calibration(const nlohmann::json& calibration);

struct CalibrationMatch {
  bool holds = false;
  std::string note;  ///< one sentence: what it bounds, or why it doesn't hold
};

/// Whether it was taken on the machine and by the major version that `environment` names, and bounds the rate.
CalibrationMatch match_calibration(const nlohmann::json& calibration, const nlohmann::json& environment);

}  // namespace diptych::reports
