#include "reports/evidence.h"

#include <cmath>

#include "reports/json_access.h"
#include "reports/statistics.h"

namespace diptych::reports {
namespace {

Json ratio_interval(const std::optional<Interval>& logs) {
  return logs ? Json{{"low", std::exp(logs->low)}, {"high", std::exp(logs->high)}, {"level", 0.95}} : Json();
}

}  // namespace

nlohmann::json evidence(std::span<const std::vector<double>> rounds, std::uint64_t seed) {
  std::vector<double> effects;
  for (const std::vector<double>& process : rounds) {
    effects.push_back(median(process));
  }
  const auto variance = variance_shares(rounds);
  return {{"sign_interval", ratio_interval(sign_interval(effects))},
          {"bootstrap_interval", ratio_interval(bootstrap_interval(rounds, seed))},
          {"p", effects.size() < 2 ? Json() : Json(t_test_p(effects))},
          {"p_holm", nullptr},
          {"variance", variance ? Json{{"between", variance->between}, {"within", variance->within}} : Json()},
          {"autocorrelation", to_json(round_autocorrelation(rounds))}};
}

}  // namespace diptych::reports
