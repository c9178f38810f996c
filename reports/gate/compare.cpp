#include "reports/gate/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/runtime/exact_metrics.h"
#include "reports/analysis/verdict.h"
#include "reports/gate/advisory.h"
#include "reports/gate/compare_side.h"
#include "reports/gate/documents.h"
#include "reports/gate/method.h"
#include "reports/run/fingerprint.h"
#include "reports/run/json_access.h"
#include "reports/run/run.h"
#include "reports/run/verdicts.h"
#include "reports/statistics/statistics.h"
#include "reports/statistics/welch.h"
#include "reports/text/format.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

/// The worse of both sides' states: whatever keeps either side from being judged.
CellState worse(const CellState& base, const CellState& head) {
  CellState state;
  state.agree = base.agree && head.agree;
  state.disagreement = base.agree ? "head: " + head.disagreement : "base: " + base.disagreement;
  state.invalid_reason = base.agree ? head.invalid_reason : base.invalid_reason;
  state.quick = base.quick || head.quick;
  state.control_drift = std::max(base.control_drift, head.control_drift);
  state.steal = std::max(base.steal, head.steal);
  state.steal_of_cell = std::max(base.steal_of_cell, head.steal_of_cell);
  state.waited = std::max(base.waited, head.waited);  // an empty value is the least
  state.others_load = std::max(base.others_load, head.others_load);
  return state;
}

/// A statistical row, until its p-value has been corrected for the other rows.
struct Candidate {
  std::size_t row;
  std::vector<double> effects;  // paired: ln(head / base) of each pair of processes
  std::optional<Effect> effect;
  CellState state;
  double delta;
  std::string method_change;  // of a row that no test judges, because it was measured in another way
};

class RunComparison {
 public:
  RunComparison(const Side& base, const Side& head, const CompareOptions& options)
      : options_(options), base_(base), head_(head) {}

  Json run() {
    const MachineComparison machine = compare_machines(base_.environment, head_.environment);
    machine_ = machine.same;
    machine_difference_ = machine.differences.empty() ? "" : shorten(machine.differences.front(), 80);
    method_changes_ = method_changes(base_.method, head_.method, machine_ != SameMachine::no);
    note_method("", method_changes_);
    const std::map<std::string, const Subject*> of_base = by_key(base_);
    const std::map<std::string, const Subject*> of_head = by_key(head_);
    std::size_t done = 0;
    for (const Subject& subject : base_.subjects) {
      tell(0.5 * static_cast<double>(done++) / static_cast<double>(base_.subjects.size()));
      const auto found = of_head.find(subject.key());
      if (found == of_head.end()) {
        vanished_.push_back(subject.key());
      } else {
        compare(subject, *found->second);
        add_advisory_rows(advisory_, subject, *found->second, machine_);
      }
    }
    for (const Subject& subject : head_.subjects) {
      if (!of_base.contains(subject.key())) {
        new_.push_back(subject.key());
      }
    }
    is_statistical_ = !candidates_.empty();
    decide_candidates();
    return document(machine);
  }

 private:
  double delta(const Subject& subject, const char* metric, Tier tier) const {
    return options_.delta ? options_.delta(subject.workload, subject.arm, metric, tier) : default_delta(tier);
  }
  bool is_of_benchmarks() const { return base_.format == "google-benchmark" || head_.format == "google-benchmark"; }
  void tell(double share) const {
    if (options_.progress) {
      options_.progress(share);
    }
  }
  bool wants(Tier tier) const { return options_.tiers.contains(tier); }

  static Json make_row(const Subject& subject, const char* metric, Tier tier, const char* unit, double allowed) {
    return {{"workload", subject.workload},
            {"arm", subject.arm.empty() ? Json() : Json(subject.arm)},
            {"metric", metric},
            {"tier", tier_name(tier)},
            {"unit", unit},
            {"base", nullptr},
            {"head", nullptr},
            {"ratio", nullptr},
            {"delta", allowed},
            {"mde", nullptr},
            {"detectable", nullptr},
            {"p", nullptr},
            {"p_holm", nullptr}};
  }

  /// `workload`: empty for changes of the whole run. What the arms of a workload have in common is noted once.
  void note_method(const std::string& workload, const std::vector<MethodChange>& changes) {
    for (const MethodChange& change : changes) {
      Json entry = {{"of", workload},
                    {"name", change.name},
                    {"base", change.base},
                    {"head", change.head},
                    {"from", tier_name(change.from)}};
      if (noted_.insert(entry).second) {
        method_.push_back(std::move(entry));
      }
    }
  }

  /// What was measured differently, as far as it bears on metrics of that tier.
  std::string method_change(const Subject& base, const Subject& head, Tier tier) const {
    std::vector<MethodChange> changes = method_changes(base.method, head.method, machine_ != SameMachine::no);
    changes.insert(changes.begin(), method_changes_.begin(), method_changes_.end());
    return changes_text(changes, tier);
  }

  void compare(const Subject& base, const Subject& head) {
    const std::size_t before = rows_.size();
    note_method(base.workload, method_changes(base.method, head.method, machine_ != SameMachine::no));
    if (options_.by != CompareBy::arm) {
      compare_exact(base, head);
      compare_instructions(base, head);
      note_invalid(base, head, before);
    }
    const bool measured = !base.log_seconds.empty() || !head.log_seconds.empty();
    if (wants(Tier::time)) {
      if (options_.by != CompareBy::commit && (!base.log_speedups.empty() || !head.log_speedups.empty())) {
        compare_samples(base, head, "speedup");
      }
      if (options_.by != CompareBy::arm && (measured || rows_.size() == before)) {
        compare_samples(base, head, "time");
      }
    }
  }

  void compare_exact(const Subject& base, const Subject& head) {
    if (!wants(Tier::exact) || base_.format != head_.format) {
      return;  // Google Benchmark doesn't count any
    }
    for (const runtime::ExactMetric& metric : runtime::exact_metrics()) {
      const auto a = figure_of(base.exact, metric.name);
      const auto b = figure_of(head.exact, metric.name);
      if (metric.is_judged && (a || b)) {
        compare_numbers(base, head, metric.name, Tier::exact, metric.is_bytes ? "bytes" : "count", a, b);
      }
    }
  }

  /// An INVALID cell may lack counts on both sides, so that no row of counts would say that it is INVALID; and a row of
  /// times may be advisory.
  void note_invalid(const Subject& base, const Subject& head, std::size_t first_row) {
    const CellState state = worse(base.state, head.state);
    if (state.agree || !(wants(Tier::exact) || wants(Tier::instructions))) {
      return;
    }
    const bool is_said = std::any_of(rows_.begin() + static_cast<std::ptrdiff_t>(first_row), rows_.end(),
                                     [](const ComparisonRow& row) { return row.verdict() == Verdict::invalid; });
    if (!is_said) {
      const Tier tier = wants(Tier::exact) ? Tier::exact : Tier::instructions;
      Json row = make_row(base, "validity", tier, "count", delta(base, "validity", tier));
      set_verdict(row, Verdict::invalid, "arms-disagree", state.disagreement);
      rows_.push_back(std::move(row));
    }
  }

  void compare_instructions(const Subject& base, const Subject& head) {
    if (!wants(Tier::instructions) || (!base.counted && !head.counted)) {
      return;
    }
    compare_numbers(base, head, "instructions", Tier::instructions, "count", base.instructions, head.instructions);
    Json& row = rows_.back();
    const bool is_invalid = ComparisonRow(row).verdict() == Verdict::invalid;
    const std::string reason = base.not_counted.empty() ? head.not_counted : base.not_counted;
    if (is_invalid && ComparisonRow(row).reason() == "not-measured" && !reason.empty()) {
      row["detail"] = reason;
    } else if (base.instruction_set != head.instruction_set && !is_invalid) {
      set_verdict(row, Verdict::invalid, "instruction-sets-differ",
                  fmt::format("counted with {} and {} kernels", base.instruction_set, head.instruction_set));
    }
  }

  void compare_numbers(const Subject& base, const Subject& head, const char* metric, Tier tier, const char* unit,
                       std::optional<double> a, std::optional<double> b) {
    const double bound = delta(base, metric, tier);
    Json row = make_row(base, metric, tier, unit, bound);
    row["base"] = to_json(a);
    row["head"] = to_json(b);
    if (!a || !b || !std::isfinite(*a) || !std::isfinite(*b) || *a < 0 || *b < 0) {
      const CellState state = worse(base.state, head.state);
      set_verdict(
          row, Verdict::invalid, state.agree ? "not-measured" : "arms-disagree",
          state.agree ? fmt::format("only the {} has a usable value", a ? "base" : "head") : state.disagreement);
      rows_.push_back(std::move(row));
      return;
    }
    const double change = *a == *b ? 0 : *a == 0 ? INFINITY : *b / *a - 1;
    if (*a > 0) {
      row["ratio"] = to_json(std::optional<Estimate>(Estimate{*b / *a, std::nullopt, std::nullopt, 0.95}));
    }
    const std::string moved = fmt::format("{} -> {}", format_count(*a), format_count(*b));
    if (std::abs(change) <= bound) {
      set_verdict(row, Verdict::equivalent, change == 0 ? "equal" : "within-delta", change == 0 ? "equal" : moved);
    } else if (const std::string changed = method_change(base, head, tier); !changed.empty()) {
      set_verdict(row, Verdict::method_changed, "method-changed", fmt::format("{}, measured with {}", moved, changed));
    } else {
      set_verdict(row, change > 0 ? Verdict::regressed : Verdict::improved, "outside-delta",
                  fmt::format("{} ({}); allowed is {}", moved,
                              std::isfinite(change) ? fmt::format("{:+.2f} %", 100 * change) : "from none",
                              bound == 0 ? "no change" : "+-" + format_percent(bound)));
    }
    rows_.push_back(std::move(row));
  }

  /// "both have", "the base has" or "the head has" statistics alone, not the repetitions that they are over.
  static std::string aggregated_side(const Subject& base, const Subject& head) {
    const bool in_base = base.log_seconds.empty() && base.aggregate;
    const bool in_head = head.log_seconds.empty() && head.aggregate;
    return in_base && in_head ? "both sides have" : in_base ? "the base has" : in_head ? "the head has" : "";
  }

  /// "time" or "speedup": one value per process, on the log scale.
  void compare_samples(const Subject& base, const Subject& head, const char* metric) {
    const bool is_time = metric == std::string("time");
    const std::vector<double>& a = is_time ? base.log_seconds : base.log_speedups;
    const std::vector<double>& b = is_time ? head.log_seconds : head.log_speedups;
    Candidate candidate;
    candidate.row = rows_.size();
    candidate.delta = delta(base, metric, Tier::time);
    candidate.state = worse(base.state, head.state);
    Json row = make_row(base, metric, Tier::time, is_time ? "seconds" : "ratio", candidate.delta);
    row["base"] = a.empty() && is_time ? to_json(base.aggregate) : centre(a);
    row["head"] = b.empty() && is_time ? to_json(head.aggregate) : centre(b);
    quick_ = quick_ || candidate.state.quick;
    if (const std::string side = is_time ? aggregated_side(base, head) : ""; !side.empty()) {
      set_verdict(row, Verdict::invalid, "aggregates-only",
                  side +
                      " statistics over repetitions alone, which no test can judge; measure again without "
                      "--benchmark_report_aggregates_only");
    } else if (is_time && machine_ != SameMachine::yes && !options_.force_time) {
      const bool unknown = machine_ == SameMachine::unknown;
      set_verdict(row, Verdict::invalid, unknown ? "machine-unknown" : "machines-differ",
                  unknown ? "the files don't say whether they come from one machine; --force-time compares anyway"
                          : fmt::format("times of different machines don't compare ({}); --force-time compares anyway",
                                        machine_difference_));
    } else {
      if (is_time && options_.interleaved) {
        candidate.effects = paired_log_ratios(base, head);
        candidate.effect = paired_effect(candidate.effects);
      } else {
        fill_effect(candidate, a, b, is_time ? 1 : -1);
      }
      if (!a.empty() && !b.empty()) {
        row["ratio"] = ratio(candidate, mean(b) - mean(a), is_time ? 1 : -1);
      }
      candidate.method_change = method_change(base, head, Tier::time);
      candidates_.push_back(std::move(candidate));
    }
    rows_.push_back(std::move(row));
  }

  /// `sign` -1 if more is better, so that a positive effect is always worse.
  void fill_effect(Candidate& candidate, const std::vector<double>& a, const std::vector<double>& b, int sign) const {
    if (a.empty() || b.empty()) {
      return;
    }
    if (options_.interleaved) {
      for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        candidate.effects.push_back(sign * (b[i] - a[i]));
      }
      candidate.effect = paired_effect(candidate.effects);
    } else {
      candidate.effects = {sign * (mean(b) - mean(a))};
      candidate.effect = independent_effect(a, b);
      if (candidate.effect) {
        candidate.effect->value *= sign;
      }
    }
  }

  static double mean(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) {
      sum += value / static_cast<double>(values.size());
    }
    return sum;
  }
  static Json centre(const std::vector<double>& logs) { return logs.empty() ? Json() : Json(std::exp(mean(logs))); }

  Json ratio(const Candidate& candidate, double difference, int sign) const {
    Estimate estimate{std::exp(difference), std::nullopt, std::nullopt, 1 - options_.alpha};
    if (candidate.effect) {
      const Estimate logs = effect_interval(*candidate.effect, 1 - options_.alpha);
      estimate.value = std::exp(sign * logs.value);
      estimate.low = std::exp(sign > 0 ? *logs.low : -*logs.high);
      estimate.high = std::exp(sign > 0 ? *logs.high : -*logs.low);
    }
    return to_json(std::optional<Estimate>(estimate));
  }

  /// Rows that were measured in another way are judged only by their state, and don't count in the correction.
  void decide_candidates() {
    std::erase_if(candidates_, [&](const Candidate& candidate) {
      if (!candidate.method_change.empty()) {
        decide_by_state(candidate);
      }
      return !candidate.method_change.empty();
    });
    std::vector<double> p;
    for (const Candidate& candidate : candidates_) {
      p.push_back(candidate.effect ? effect_p(*candidate.effect, std::log1p(candidate.delta)) : 1);
    }
    const std::vector<double> adjusted = holm(p);
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      tell(0.5 + 0.5 * static_cast<double>(i) / static_cast<double>(candidates_.size()));
      decide_candidate(candidates_[i], p[i], adjusted[i]);
    }
  }

  void decide_by_state(const Candidate& candidate) {
    Json& row = rows_[candidate.row];
    row.update(decide_change(candidate.effects, {.delta = candidate.delta}, candidate.state));
    if (!is_unusable(ComparisonRow(row).verdict())) {
      set_verdict(row, Verdict::method_changed, "method-changed", "measured with " + candidate.method_change);
    }
  }

  void decide_candidate(const Candidate& candidate, double p, double p_holm) {
    Json& row = rows_[candidate.row];
    ChangeRule rule;
    rule.delta = candidate.delta;
    rule.alpha = options_.alpha;
    rule.power = options_.power;
    rule.p_holm = p_holm;
    rule.family = static_cast<int>(candidates_.size());
    if (candidate.effect) {
      const double mde = effect_mde(*candidate.effect, options_.alpha / rule.family, rule.power);
      row["mde"] = mde;
      row["detectable"] = std::expm1(std::log1p(candidate.delta) + mde);
      row["p"] = p;
      row["p_holm"] = p_holm;
    }
    row.update(options_.interleaved || !candidate.effect ? decide_change(candidate.effects, rule, candidate.state)
                                                         : decide_independent(candidate, rule));
    if (ComparisonRow(row).reason() == "too-few-processes" && is_of_benchmarks()) {
      row["detail"] = "one repetition has no interval; measure both sides with --benchmark_repetitions=10";
    }
  }

  /// The order of decide_change (verdict.h). The verdicts that follow from the state come from a call with a single
  /// effect, for which it can otherwise only say "too few processes".
  static Json decide_independent(const Candidate& candidate, const ChangeRule& rule) {
    Json verdict = decide_change(candidate.effects, rule, candidate.state);
    if (Judgement(verdict).reason() != "too-few-processes") {
      return verdict;
    }
    const Effect& effect = *candidate.effect;
    const double margin = std::log1p(rule.delta);
    const Estimate interval = effect_interval(effect, 1 - rule.alpha);
    const std::string band = "+-" + format_percent(rule.delta);
    const bool outside = *interval.low > margin || *interval.high < -margin;
    if (outside && *rule.p_holm <= rule.alpha) {
      set_verdict(verdict, effect.value > 0 ? Verdict::regressed : Verdict::improved, "outside-delta",
                  fmt::format("the {} interval lies {} {}", format_percent(interval.level),
                              effect.value > 0 ? "above" : "below", band));
    } else if (outside) {
      set_verdict(verdict, Verdict::inconclusive, "holm",
                  fmt::format("outside of {} by itself, but not among {} comparisons", band, rule.family));
    } else if (effect_equivalent(effect, margin)) {
      set_verdict(verdict, Verdict::equivalent, "within-delta", "the same within " + band);
    } else {
      set_verdict(
          verdict, Verdict::inconclusive, "effect-below-mde",
          fmt::format("this could have found a change of {}",
                      format_percent(std::expm1(margin + effect_mde(effect, rule.alpha / rule.family, rule.power)))));
    }
    return verdict;
  }

  static const char* machine_word(SameMachine same) {
    return same == SameMachine::yes ? "same" : same == SameMachine::no ? "different" : "unknown";
  }

  Json side(const Side& from) const {
    Json about = from.about;
    about["format"] = from.format;
    about["subjects"] = from.subjects.size();
    return about;
  }

  std::vector<std::string> notes(bool statistical) const {
    std::vector<std::string> out;
    if (statistical && !options_.interleaved) {
      out.emplace_back(
          "not interleaved: the two sides ran one after the other, so what changed on the machine in between counts as "
          "a "
          "change; processes are independent samples (Welch's t). `diptych gate` measures interleaved");
    }
    if (statistical && is_of_benchmarks()) {
      out.emplace_back(
          "repetitions of Google Benchmark share a process: the interval doesn't hold how a launch's memory layout "
          "moves "
          "times");
    }
    if (options_.force_time && machine_ != SameMachine::yes) {
      out.emplace_back("times of different or unknown machines, because of --force-time");
    }
    if (quick_) {
      out.emplace_back("a quick run shows a direction, no verdict on times");
    }
    return out;
  }

  Json document(const MachineComparison& machine) const {
    Json environment = Json::array();
    for (const FingerprintField& field : fingerprint_difference(base_.environment, head_.environment)) {
      environment.push_back({{"group", field.group},
                             {"name", field.name},
                             {"base", field.base},
                             {"head", field.head},
                             {"matters", field.matters}});
    }
    static const std::map<CompareBy, const char*> names = {
        {CompareBy::commit, "commit"}, {CompareBy::arm, "arm"}, {CompareBy::machine, "machine"}};
    return {{"schema", compare_schema_id},
            {"by", names.at(options_.by)},
            {"design", options_.interleaved ? "interleaved" : "not interleaved"},
            {"alpha", options_.alpha},
            {"base", side(base_)},
            {"head", side(head_)},
            {"machine", {{"same", machine_word(machine.same)}, {"differences", machine.differences}}},
            {"method", method_},
            {"environment", std::move(environment)},
            {"rows", rows_},
            {"advisory", advisory_},
            {"new", new_},
            {"vanished", vanished_},
            {"notes", notes(is_statistical_)},
            {"summary", summarise_rows(rows_)}};
  }

  const CompareOptions& options_;
  const Side& base_;
  const Side& head_;
  SameMachine machine_ = SameMachine::unknown;
  std::string machine_difference_;  // the best known field
  bool quick_ = false, is_statistical_ = false;
  std::vector<MethodChange> method_changes_;  // of the whole runs
  Json method_ = Json::array();
  std::set<Json> noted_;  // what stands in method_
  Json rows_ = Json::array();
  Json advisory_ = Json::array();
  std::vector<Candidate> candidates_;
  std::vector<std::string> new_, vanished_;
};

}  // namespace

const char* tier_name(Tier tier) {
  return tier == Tier::exact ? "exact" : tier == Tier::instructions ? "instructions" : "time";
}

std::optional<Tier> tier_of(const std::string& name) {
  for (const Tier tier : {Tier::exact, Tier::instructions, Tier::time}) {
    if (name == tier_name(tier)) {
      return tier;
    }
  }
  return std::nullopt;
}

double default_delta(Tier tier) { return tier == Tier::exact ? 0 : tier == Tier::instructions ? 0.005 : 0.02; }

Json summarise_rows(const Json& rows) {
  std::map<std::string, int> counts;
  for (const ComparisonRow row : Parts<ComparisonRow>(rows)) {
    ++counts[row.verdict_name()];
  }
  Verdict verdict = Verdict::invalid;
  for (const Verdict candidate : {Verdict::equivalent, Verdict::improved, Verdict::inconclusive,
                                  Verdict::method_changed, Verdict::contaminated, Verdict::regressed}) {
    if (counts.contains(std::string(name_of(candidate)))) {
      verdict = candidate;
    }
  }
  return {{"verdict", verdict}, {"counts", counts}, {"rows", rows.size()}};
}

Json compare_runs(const Json& base, const Json& head, const CompareOptions& options) {
  return compare_sides(read_side(base), read_side(head), options);
}

Json compare_sides(const Side& base, const Side& head, const CompareOptions& options) {
  return RunComparison(base, head, options).run();
}

void set_verdict(Json& row, Verdict verdict, const std::string& reason, const std::string& detail) {
  row["verdict"] = verdict;
  row["reason"] = reason;
  row["detail"] = detail;
}

}  // namespace diptych::reports
