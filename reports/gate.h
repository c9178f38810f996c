#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "reports/gate_config.h"

/// Verdicts for CI. The document ("diptych.gate/1") is the source of all that the gate prints.
namespace diptych::reports {

inline constexpr const char* gate_schema_id = "diptych.gate/1";

/// Exit codes of `gate` (docs/gate.md).
inline constexpr int gate_pass = 0;
inline constexpr int gate_regressed = 2;
inline constexpr int gate_cannot_tell = 3;

/// Of the detectable change of each of the two looks: both together find it with 95 %.
inline constexpr double gate_power = 0.975;

struct GateSetup {
  std::string base, head;  ///< as people know them: file, binary, ref
  std::string today;
  /// Times decide: there is a matching calibration, and the sides were measured interleaved. Otherwise they are shown.
  bool time_decides = false;
  std::string time_note;  ///< why, or why not
  /// The same binary with the same libraries: nothing was measured, and nothing can have changed.
  bool unchanged = false;
  std::string unchanged_note;
};

/// Whether a screened row asks for a second look in fresh processes: a REGRESSED that isn't muted and decides.
bool needs_confirmation(const nlohmann::json& row, const GateConfig& config, const GateSetup& setup);

/// `screen` and `confirm` are comparison documents (compare.h), `confirm` null when there was nothing to confirm, or
/// nothing to measure again (files). A regression needs both where there are both.
/// Gives {"schema", "verdict": PASS | REGRESSED | CANNOT TELL, "exit_code", "reason", "base", "head", "rows" (each with
/// "role": deciding | advisory | muted, "screened", "confirmed"), "new", "vanished", "mutes", "time", "stages",
/// "machine", "environment", "notes", "summary"}.
///   REGRESSED    a deciding row is worse, twice
///   CANNOT TELL  nothing was compared; no row decides; a deciding row is INVALID or CONTAMINATED; a cell vanished
///   PASS         else
nlohmann::json judge_gate(const nlohmann::json& screen, const nlohmann::json& confirm, const GateConfig& config,
                          const GateSetup& setup);

}  // namespace diptych::reports
