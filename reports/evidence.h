#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

namespace diptych::reports {

/// What stands behind a comparison: {"sign_interval", "bootstrap_interval", "p", "p_holm", "variance",
/// "autocorrelation"} from one vector of log differences ln(base) - ln(arm) per process. Intervals are of the ratio
/// base / arm. What cannot be computed is null; `p_holm` is filled in over the whole run.
nlohmann::json evidence(std::span<const std::vector<double>> rounds, std::uint64_t seed);

}  // namespace diptych::reports
