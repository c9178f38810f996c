#pragma once

#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

/// The verdicts of run.json, of comparisons and of gates. Their names are API and are defined only here.
namespace diptych::reports {

enum class Verdict {
  // For two arms (analysis/verdict.h):
  faster,
  slower,
  indicative,
  // For two builds:
  regressed,
  improved,
  method_changed,  ///< it differs, and was measured in another way
  // For either:
  equivalent,
  inconclusive,
  contaminated,
  invalid
};

/// "FASTER"
std::string_view name_of(Verdict verdict);
/// Empty for any other name.
std::optional<Verdict> verdict_from(std::string_view name);
/// For {"verdict", Verdict::faster} in a document.
void to_json(nlohmann::json& json, Verdict verdict);
/// Whether figures under this verdict must not be used: CONTAMINATED, INVALID.
bool is_unusable(std::optional<Verdict> verdict);

}  // namespace diptych::reports
