#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/format.h"

namespace diptych::reports {

/// What stands behind a comparison: {"sign_interval", "bootstrap_interval", "p", "p_holm", "variance",
/// "autocorrelation"} from one vector of log differences ln(base) - ln(arm) per process. Intervals are of the ratio
/// base / arm. What cannot be computed is null; `p_holm` is filled in over the whole run.
nlohmann::json evidence(std::span<const std::vector<double>> rounds, std::uint64_t seed);

/// One sentence where the t, sign and bootstrap intervals of a comparison don't lie on the same side of 1; else empty.
std::string intervals_disagree(const nlohmann::json& comparison, Glyphs glyphs = Glyphs::ascii);

/// "1.41x [1.35, 1.47]" without the estimate: "[1.35, 1.47]"; "-" when null.
std::string interval_text(const nlohmann::json& interval);

}  // namespace diptych::reports
