#include "reports/analysis/verdict.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/run/verdicts.h"
#include "reports/statistics/statistics.h"
#include "reports/statistics/welch.h"
#include "reports/text/format.h"

namespace diptych::reports {
namespace {

nlohmann::json verdict(Verdict name, nlohmann::json direction, const char* reason, const std::string& detail) {
  return {{"verdict", name}, {"direction", std::move(direction)}, {"reason", reason}, {"detail", detail}};
}

const char* direction_of(const Estimate& ratio) {
  if (!ratio.excludes(1)) {
    return "unclear";
  }
  return ratio.value > 1 ? "faster" : "slower";
}

struct Finding {
  std::optional<Verdict> verdict;
  const char* reason;
  std::string detail;
};

Finding invalid(std::span<const double> effects, const CellState& state) {
  if (!state.agree) {
    return {Verdict::invalid, state.invalid_reason.c_str(),
            state.disagreement.empty() ? "the arms compute different results" : state.disagreement};
  }
  const bool finite = std::all_of(effects.begin(), effects.end(), [](double e) { return std::isfinite(e); });
  if (effects.empty() || !finite) {
    return {Verdict::invalid, "empty", finite ? "no round was measured" : "a measured effect is not a finite number"};
  }
  return {std::nullopt, nullptr, ""};
}

Finding contaminated(const CellState& state) {
  if (state.control_drift > contamination_limit) {
    return {Verdict::contaminated, "control-drift",
            fmt::format("the control workload moved by {}; the machine was not quiet, measure again",
                        format_percent(state.control_drift))};
  }
  if (state.steal > contamination_limit) {
    return {Verdict::contaminated, "steal-time",
            fmt::format("other guests took at least {} of the measured time; measure again on a quieter host",
                        format_percent(state.steal))};
  }
  if (state.steal_of_cell > contamination_limit) {
    return {
        Verdict::contaminated, "steal-time",
        "other guests took time of the machine; how much of what was measured, this older file doesn't say: measure "
        "again"};
  }
  if (state.waited && *state.waited > contamination_limit) {
    return {Verdict::contaminated, "load",
            fmt::format("other programs had the measuring CPU for {} of the measured time; stop them and measure again",
                        format_percent(*state.waited))};
  }
  if (state.others_load && *state.others_load > others_load_limit) {
    return {Verdict::contaminated, "load",
            fmt::format("other programs used {} of all CPUs meanwhile; stop them and measure again",
                        format_percent(*state.others_load))};
  }
  return {std::nullopt, nullptr, ""};
}

const char* too_few = "one process has no interval; measure more";

}  // namespace

bool is_contaminated(const CellState& state) { return contaminated(state).verdict.has_value(); }

nlohmann::json decide(std::span<const double> effects, const CellState& state, std::optional<double> p_holm) {
  if (const Finding f = invalid(effects, state); f.verdict) {
    return verdict(*f.verdict, nullptr, f.reason, f.detail);
  }
  const Estimate ratio = ratio_estimate(effects);
  const char* direction = direction_of(ratio);
  if (const Finding f = contaminated(state); f.verdict) {
    return verdict(*f.verdict, direction, f.reason, f.detail);
  }
  if (state.quick) {
    return verdict(Verdict::indicative, direction, "quick-size",
                   "a quick run shows a direction; --standard gives a verdict");
  }
  if (!ratio.has_interval()) {
    return verdict(Verdict::inconclusive, direction, "too-few-processes", too_few);
  }
  if (ratio.excludes(1) && p_holm && *p_holm > comparison_alpha) {
    return verdict(Verdict::inconclusive, "unclear", "holm",
                   fmt::format("the interval excludes 1, but among all comparisons of the run that may be chance "
                               "(adjusted p {:.2g}); run --certify to see less",
                               *p_holm));
  }
  if (ratio.excludes(1)) {
    return verdict(
        ratio.value > 1 ? Verdict::faster : Verdict::slower, direction, "interval-excludes-1",
        fmt::format("the {:.0f} % interval lies {} 1", 100 * ratio.level, ratio.value > 1 ? "above" : "below"));
  }
  if (equivalent(effects, equivalence_margin)) {
    return verdict(Verdict::equivalent, direction, "within-margin",
                   fmt::format("the same within {}", format_percent(equivalence_margin)));
  }
  return verdict(Verdict::inconclusive, direction, "effect-below-mde",
                 fmt::format("this run could have found a difference of {}; run --certify to see less",
                             format_percent(*minimum_detectable_effect(effects))));
}

double change_p(std::span<const double> effects, double delta) {
  const auto effect = paired_effect(effects);
  return effect ? effect_p(*effect, std::log1p(delta)) : 1;
}

std::optional<double> detectable_change(std::span<const double> effects, const ChangeRule& rule) {
  const auto effect = paired_effect(effects);
  if (!effect) {
    return std::nullopt;
  }
  const double mde = effect_mde(*effect, rule.alpha / std::max(1, rule.family), rule.power);
  return std::expm1(std::log1p(rule.delta) + mde);
}

nlohmann::json decide_change(std::span<const double> effects, const ChangeRule& rule, const CellState& state) {
  if (!(rule.delta >= 0 && std::isfinite(rule.delta)) || !(rule.alpha > 0 && rule.alpha < 1) ||
      !(rule.power > 0 && rule.power < 1)) {
    throw Error(
        fmt::format("delta {}, alpha {}, power {} is no rule: delta is at least 0, alpha and power lie between "
                    "0 and 1",
                    rule.delta, rule.alpha, rule.power));
  }
  const auto say = [](Verdict name, const char* reason, const std::string& detail) {
    return nlohmann::json{{"verdict", name}, {"reason", reason}, {"detail", detail}};
  };
  for (const Finding& f : {invalid(effects, state), contaminated(state)}) {
    if (f.verdict) {
      return say(*f.verdict, f.reason, f.detail);
    }
  }
  if (state.quick) {
    return say(Verdict::inconclusive, "quick-size", "a quick run has no verdicts; measure with --gate");
  }
  if (effects.size() < 2) {
    return say(Verdict::inconclusive, "too-few-processes", too_few);
  }
  const Effect effect = *paired_effect(effects);
  const Estimate logs = effect_interval(effect, 1 - rule.alpha);
  const std::string change = fmt::format("{:+.1f} % [{:+.1f}, {:+.1f}]", 100 * std::expm1(logs.value),
                                         100 * std::expm1(*logs.low), 100 * std::expm1(*logs.high));
  const double p = change_p(effects, rule.delta);
  if (std::max(p, rule.p_holm.value_or(p)) <= rule.alpha) {
    return say(
        effect.value > 0 ? Verdict::regressed : Verdict::improved, "outside-delta",
        fmt::format("{} {}, beyond {}", change, effect.value > 0 ? "slower" : "faster", format_percent(rule.delta)));
  }
  if (p <= rule.alpha) {
    return say(Verdict::inconclusive, "holm",
               fmt::format("{} is beyond {}, but among all cells that may be chance (adjusted p {:.2g})", change,
                           format_percent(rule.delta), *rule.p_holm));
  }
  if (effect_equivalent(effect, std::log1p(rule.delta))) {
    return say(Verdict::equivalent, "within-delta", fmt::format("{}, within {}", change, format_percent(rule.delta)));
  }
  return say(Verdict::inconclusive, "effect-below-mde",
             fmt::format("{}; a slowdown of {} or more would have been found", change,
                         format_percent(*detectable_change(effects, rule))));
}

}  // namespace diptych::reports
