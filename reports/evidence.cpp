#include "reports/evidence.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/json_access.h"
#include "reports/statistics.h"

namespace diptych::reports {
namespace {

Json ratio_interval(const std::optional<Interval>& logs) {
  return logs ? Json{{"low", std::exp(logs->low)}, {"high", std::exp(logs->high)}, {"level", 0.95}} : Json();
}

// Which side of 1 an interval lies on; 0: it holds 1.
std::optional<int> side(const Json& interval) {
  const auto low = number(interval, "low");
  const auto high = number(interval, "high");
  if (!low || !high) {
    return std::nullopt;
  }
  return *low > 1 ? 1 : *high < 1 ? -1 : 0;
}

}  // namespace

std::string interval_text(const nlohmann::json& interval) {
  const auto low = number(interval, "low");
  const auto high = number(interval, "high");
  return low && high ? fmt::format("[{:.3g}, {:.3g}]", *low, *high) : "-";
}

std::string intervals_disagree(const nlohmann::json& comparison, Glyphs glyphs) {
  const Json& t = member(comparison, "speedup");
  const Json& evidence = member(comparison, "evidence");
  std::vector<std::string> others;
  const auto expected = side(t);
  for (const auto& [field, name] : {std::pair{"sign_interval", "sign"}, {"bootstrap_interval", "bootstrap"}}) {
    const Json& interval = member(evidence, field);
    const auto found = side(interval);
    if (expected && found && *found != *expected) {
      others.push_back(fmt::format("the {} interval {}", name, interval_text(interval)));
    }
  }
  if (others.empty()) {
    return "";
  }
  return fmt::format("{}: the t interval {} and {} lie differently about 1{}; see docs/measurement.md",
                     text(comparison, "arm"), interval_text(t), fmt::join(others, " and "),
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
