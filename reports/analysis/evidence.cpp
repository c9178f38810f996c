#include "reports/analysis/evidence.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/run/run.h"
#include "reports/statistics/statistics.h"

namespace diptych::reports {
namespace {

Json ratio_interval(const std::optional<Interval>& logs) {
  return logs ? Json{{"low", std::exp(logs->low)}, {"high", std::exp(logs->high)}, {"level", 0.95}} : Json();
}

// The side of 1 on which an interval lies; 0 if it contains 1.
std::optional<int> side(const std::optional<Interval>& interval) {
  return interval ? std::optional(interval->low > 1 ? 1 : interval->high < 1 ? -1 : 0) : std::nullopt;
}

}  // namespace

std::optional<Interval> t_interval(const Comparison& comparison) {
  const auto speedup = comparison.speedup();
  return speedup && speedup->has_interval() ? std::optional(Interval{*speedup->low, *speedup->high}) : std::nullopt;
}

std::string interval_text(const std::optional<Interval>& interval) {
  return interval ? fmt::format("[{:.3g}, {:.3g}]", interval->low, interval->high) : "-";
}

std::string intervals_disagree(const Comparison& comparison, Glyphs glyphs) {
  const std::optional<Interval> t = t_interval(comparison);
  const Evidence evidence = comparison.evidence();
  std::vector<std::string> others;
  const auto expected = side(t);
  for (const auto& [interval, name] :
       {std::pair{evidence.sign_interval(), "sign"}, {evidence.bootstrap_interval(), "bootstrap"}}) {
    const auto found = side(interval);
    if (expected && found && *found != *expected) {
      others.push_back(fmt::format("the {} interval {}", name, interval_text(interval)));
    }
  }
  if (others.empty()) {
    return "";
  }
  return fmt::format("{}: the t interval {} and {} lie differently about 1{}; see docs/measurement.md",
                     comparison.arm(), interval_text(t), fmt::join(others, " and "),
                     glyphs == Glyphs::typographic ? "×" : "");
}

nlohmann::json evidence(std::span<const std::vector<double>> rounds, std::uint64_t seed) {
  std::vector<double> effects;
  for (const std::vector<double>& process : rounds) {
    effects.push_back(median(process));
  }
  const auto variance = variance_shares(rounds);
  return {{"sign_interval", ratio_interval(sign_interval(effects))},
          {"bootstrap_interval", ratio_interval(bootstrap_interval(rounds, seed))},
          {"p", effects.size() < 2 ? Json() : Json(mean_p(effects))},
          {"p_holm", nullptr},
          {"variance", variance ? Json{{"between", variance->between}, {"within", variance->within}} : Json()},
          {"autocorrelation", to_json(round_autocorrelation(rounds))}};
}

}  // namespace diptych::reports
