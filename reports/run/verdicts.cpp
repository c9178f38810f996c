#include "reports/run/verdicts.h"

#include <algorithm>
#include <array>

namespace diptych::reports {
namespace {

constexpr std::array<std::string_view, 10> kNames = {"FASTER",       "SLOWER",         "INDICATIVE", "REGRESSED",
                                                     "IMPROVED",     "METHOD CHANGED", "EQUIVALENT", "INCONCLUSIVE",
                                                     "CONTAMINATED", "INVALID"};

}  // namespace

std::string_view name_of(Verdict verdict) { return kNames.at(static_cast<std::size_t>(verdict)); }

std::optional<Verdict> verdict_from(std::string_view name) {
  const auto* const found = std::find(kNames.begin(), kNames.end(), name);
  return found != kNames.end() ? std::optional(static_cast<Verdict>(found - kNames.begin())) : std::nullopt;
}

void to_json(nlohmann::json& json, Verdict verdict) { json = std::string(name_of(verdict)); }

bool is_unusable(std::optional<Verdict> verdict) {
  return verdict == Verdict::contaminated || verdict == Verdict::invalid;
}

}  // namespace diptych::reports
