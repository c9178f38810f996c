#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reports/run/run.h"
#include "reports/text/format.h"

namespace diptych::reports {

/// The evidence behind a comparison: {"sign_interval", "bootstrap_interval", "p", "p_holm", "variance",
/// "autocorrelation"}, from one vector of log differences ln(base) - ln(arm) per process. Intervals are of the ratio
/// base / arm. Values that cannot be computed are null; `p_holm` is filled in over the whole run.
nlohmann::json evidence(std::span<const std::vector<double>> rounds, std::uint64_t seed);

/// One sentence if the t, sign and bootstrap intervals of a comparison don't lie on the same side of 1; otherwise
/// empty.
std::string intervals_disagree(const Comparison& comparison, Glyphs glyphs = Glyphs::ascii);

/// The interval of the speedup itself.
std::optional<Interval> t_interval(const Comparison& comparison);

/// "[1.35, 1.47]"; "-" if there is none.
std::string interval_text(const std::optional<Interval>& interval);

}  // namespace diptych::reports
