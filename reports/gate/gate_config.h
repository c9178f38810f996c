#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/gate/compare.h"

/// diptych.toml: what the gate allows. docs/gate.md has an example.
namespace diptych::reports {

/// `*` stands for any characters, `?` for one.
bool glob_matches(std::string_view pattern, std::string_view text);

/// [[override]]: another allowance for some cells.
struct GateOverride {
  std::string cell = "*";    ///< glob over "workload/arm"
  std::string metric = "*";  ///< glob over the metric's name or its tier
  double delta = 0;
};

/// [[mute]]: a known regression that must not fail the gate until a given day. Both the day and the reason are
/// required.
struct GateMute {
  std::string cell;          ///< glob over "workload/arm", or over a name that vanished
  std::string metric = "*";  ///< as in an override; "vanished" for cells that are gone
  std::string until;         ///< "YYYY-MM-DD", the last day of the mute
  std::string reason;
  int line = 0;
};

struct GateConfig {
  std::string file;  ///< empty if none was read
  std::map<Tier, double> delta;
  std::vector<GateOverride> overrides;
  std::vector<GateMute> mutes;
  std::vector<std::string> workloads, arms, metrics;  ///< empty: the defaults
  double alpha = 0.01;

  /// From the last override that matches, otherwise the tier's delta, otherwise default_delta.
  double delta_of(const std::string& workload, const std::string& arm, const std::string& metric, Tier tier) const;
  /// The first mute that matches, or null.
  const GateMute* mute_of(const std::string& cell, const std::string& metric, const std::string& tier) const;
};

/// `file` names the text in messages. Throws Error, with file and line, for invalid TOML, unknown keys (with the
/// nearest one), wrong types, deltas outside [0, 10], invalid dates, a mute without day or reason, and a mute whose day
/// is before `today` ("YYYY-MM-DD").
GateConfig parse_gate_config(std::string_view text, const std::string& file, const std::string& today);

}  // namespace diptych::reports
