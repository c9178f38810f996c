#include "reports/verdict.h"

#include <fmt/format.h>

#include "reports/format.h"
#include "reports/statistics.h"

namespace diptych::reports {
namespace {

nlohmann::json verdict(const char* name, nlohmann::json direction, const char* reason, const std::string& detail) {
  return {{"verdict", name}, {"direction", std::move(direction)}, {"reason", reason}, {"detail", detail}};
}

const char* direction_of(const Estimate& ratio) {
  if (!ratio.excludes(1)) {
    return "unclear";
  }
  return ratio.value > 1 ? "faster" : "slower";
}

}  // namespace

nlohmann::json decide(std::span<const double> effects, const CellState& state) {
  if (!state.agree) {
    return verdict("INVALID", nullptr, "arms-disagree",
                   state.disagreement.empty() ? "the arms compute different results" : state.disagreement);
  }
  if (effects.empty()) {
    return verdict("INVALID", nullptr, "empty", "no round was measured");
  }
  const Estimate ratio = ratio_estimate(effects);
  const char* direction = direction_of(ratio);
  if (state.control_drift > contamination_limit) {
    return verdict("CONTAMINATED", direction, "control-drift",
                   fmt::format("the control workload moved by {}; the machine was not quiet, measure again",
                               format_percent(state.control_drift)));
  }
  if (state.steal > contamination_limit) {
    return verdict(
        "CONTAMINATED", direction, "steal-time",
        fmt::format("other guests took {} of the time; measure again on a quieter host", format_percent(state.steal)));
  }
  if (state.quick) {
    return verdict("INDICATIVE", direction, "quick-size", "a quick run shows a direction; --standard gives a verdict");
  }
  if (!ratio.has_interval()) {
    return verdict("INCONCLUSIVE", direction, "too-few-processes", "one process has no interval; measure more");
  }
  if (ratio.excludes(1)) {
    return verdict(
        ratio.value > 1 ? "FASTER" : "SLOWER", direction, "interval-excludes-1",
        fmt::format("the {:.0f} % interval lies {} 1", 100 * ratio.level, ratio.value > 1 ? "above" : "below"));
  }
  if (equivalent(effects, equivalence_margin)) {
    return verdict("EQUIVALENT", direction, "within-margin",
                   fmt::format("the same within {}", format_percent(equivalence_margin)));
  }
  return verdict("INCONCLUSIVE", direction, "effect-below-mde",
                 fmt::format("this run could have found a difference of {}; run --certify to see less",
                             format_percent(*minimum_detectable_effect(effects))));
}

}  // namespace diptych::reports
