#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "reports/run/verdicts.h"

/// What changed between two measurements. The document ("diptych.compare/1") is the source of the table, the Markdown
/// and the gate's verdicts.
namespace diptych::reports {

inline constexpr const char* compare_schema_id = "diptych.compare/1";

/// How the two files are related.
enum class CompareBy {
  commit,   ///< two builds on one machine: times of every arm
  arm,      ///< how far each arm is ahead of eager, then and now; the machine's speed cancels
  machine,  ///< one build on two machines: exact metrics, and each arm's lead over eager; times only if forced
};

/// Metrics by how well they repeat. "speedup" and "time" are statistical.
enum class Tier { exact, instructions, time };
const char* tier_name(Tier tier);
std::optional<Tier> tier_of(const std::string& name);

struct CompareOptions {
  CompareBy by = CompareBy::commit;
  /// Compare times even if the machines differ or are unknown.
  bool force_time = false;
  /// Process i of both sides ran side by side, so effects are paired. Otherwise the sides are independent samples.
  bool interleaved = false;
  double alpha = 0.01;  ///< over all statistical rows together [Holm 1979]
  double power = 0.9;   ///< with which the detectable change would have been found
  std::set<Tier> tiers = {Tier::exact, Tier::instructions, Tier::time};
  /// The relative change up to which a row counts as unchanged; empty: default_delta. Arguments: workload, arm, metric,
  /// tier.
  std::function<double(const std::string&, const std::string&, const std::string&, Tier)> delta;
  /// Called with the share that is done, 0 to 1.
  std::function<void(double share)> progress;
};

/// 0 for exact metrics, 0.5 % for instructions, 2 % for times.
double default_delta(Tier tier);

/// {"schema", "by", "design", "alpha", "base", "head", "machine", "method", "environment", "rows", "advisory", "new",
/// "vanished", "notes", "summary"}. Each row: workload, arm, metric, tier, unit, base, head, ratio (head / base with
/// interval), delta, mde, detectable, p, p_holm, verdict (REGRESSED, IMPROVED, EQUIVALENT, INCONCLUSIVE, METHOD
/// CHANGED, CONTAMINATED, INVALID), reason, detail. Larger is worse in every metric but "speedup". docs/compare.md
/// describes each member.
///
/// `base` and `head` are runs of Diptych or files of Google Benchmark. Throws Error for times that can't be.
nlohmann::json compare_runs(const nlohmann::json& base, const nlohmann::json& head, const CompareOptions& options = {});
/// The same of two sides that were read before (compare_side.h).
struct Side;
nlohmann::json compare_sides(const Side& base, const Side& head, const CompareOptions& options = {});

/// {"verdict", "counts", "rows"}. The verdict is the first of REGRESSED, CONTAMINATED, METHOD CHANGED, INCONCLUSIVE,
/// IMPROVED and EQUIVALENT that any row has; INVALID if no row has one of these, or there is no row. `counts`: the
/// number of rows of each verdict.
nlohmann::json summarise_rows(const nlohmann::json& rows);

void set_verdict(nlohmann::json& row, Verdict verdict, const std::string& reason, const std::string& detail);

}  // namespace diptych::reports
