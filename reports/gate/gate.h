#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "reports/gate/documents.h"
#include "reports/gate/gate_config.h"

/// Verdicts for CI. The document ("diptych.gate/1") is the source of everything that the gate prints.
namespace diptych::reports {

inline constexpr const char* gate_schema_id = "diptych.gate/1";

/// Exit codes of `gate` (docs/gate.md).
inline constexpr int gate_pass = 0;
inline constexpr int gate_regressed = 2;
inline constexpr int gate_cannot_tell = 3;

/// Power at which each of the two measurements states its detectable change; both together find it with 95 %.
inline constexpr double gate_power = 0.975;

struct GateSetup {
  std::string base, head;  ///< as the user knows them: file, binary, ref
  std::string today;
  /// Whether times decide: there is a matching calibration, and the sides were measured interleaved. Otherwise times
  /// are only shown.
  bool time_decides = false;
  std::string time_note;  ///< why, or why not
  /// Base and head are the same binary with the same libraries: nothing was measured, and nothing can have changed.
  bool unchanged = false;
  std::string unchanged_note;
};

/// Whether a screened row needs to be measured again in fresh processes: it is REGRESSED, decides, and isn't muted.
bool needs_confirmation(const ComparisonRow& row, const GateConfig& config, const GateSetup& setup);

/// `screen` and `confirm` are comparison documents (compare.h); `confirm` is null if there was nothing to confirm, or
/// nothing to measure again (files). If both exist, a regression must be in both.
/// Returns {"schema", "verdict": PASS | REGRESSED | CANNOT TELL, "exit_code", "reason", "base", "head", "rows" (each
/// with "role": deciding | advisory | muted, "screened", "confirmed"), "new", "vanished", "mutes", "time", "stages",
/// "machine", "environment", "notes", "summary"}.
///   REGRESSED    a deciding row is worse, twice
///   CANNOT TELL  nothing was compared; no row decides; a deciding row is INVALID or CONTAMINATED; a cell vanished
///   PASS         otherwise
nlohmann::json judge_gate(const nlohmann::json& screen, const nlohmann::json& confirm, const GateConfig& config,
                          const GateSetup& setup);

}  // namespace diptych::reports
