#include "reports/analysis/ladder.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "framework/runtime/exact_metrics.h"
#include "reports/analysis/ladder_split.h"
#include "reports/run/run.h"
#include "reports/statistics/statistics.h"

namespace diptych::reports {
namespace {

/// The seconds of each round, process by process.
using Rounds = std::vector<std::vector<double>>;

class Savings {
 public:
  Savings(const Cell& cell, const std::string& base) : cell_(cell) {
    const Rounds rounds = rounds_of(base);
    for (const auto& process : rounds) {
      base_.push_back(median(process));
    }
    unit_ = base_.empty() ? 0 : time_estimate(base_).value;
  }

  std::size_t processes() const { return base_.size(); }
  double unit() const { return unit_; }

  /// One value per process.
  std::vector<double> between(const std::string& from, const std::string& to) const {
    const Rounds before = rounds_of(from);
    const Rounds after = rounds_of(to);
    std::vector<double> saved;
    for (std::size_t p = 0; p < base_.size(); ++p) {
      std::vector<double> differences;
      for (std::size_t j = 0; j < before[p].size(); ++j) {
        differences.push_back(before[p][j] - after[p][j]);
      }
      saved.push_back(median(differences) / base_[p] * unit_);
    }
    return saved;
  }

 private:
  Rounds rounds_of(const std::string& arm) const {
    // Every round counts, so that those of two arms stay side by side.
    const auto read = [](const Json& entry) { return entry.is_number() ? entry.get<double>() : 0.0; };
    Rounds rounds;
    for (const Process process : cell_.processes()) {
      if (std::vector<double> seconds = process.seconds(arm, read); !seconds.empty()) {
        rounds.push_back(std::move(seconds));
      }
    }
    return rounds;
  }

  Cell cell_;
  std::vector<double> base_;
  double unit_ = 0;
};

/// Empty for an arm that isn't compiled.
std::optional<std::set<std::string>> groups_of(const Arm& arm) {
  const auto groups = arm.groups();
  return groups ? std::optional(std::set<std::string>(groups->begin(), groups->end())) : std::nullopt;
}

/// The pass rung that `to` has and `from` lacks, if it is the only difference between them.
std::optional<std::string> single_difference(const Arm& from, const Arm& to) {
  const auto before = groups_of(from);
  const auto after = groups_of(to);
  if (from.threads() != to.threads() || !before || !after || after->size() != before->size() + 1) {
    return std::nullopt;
  }
  std::vector<std::string> added;
  std::set_difference(after->begin(), after->end(), before->begin(), before->end(), std::back_inserter(added));
  return added.size() == 1 ? std::optional(added[0]) : std::nullopt;
}

std::string rung_name(const Arm& arm) {
  const std::string rung = arm.rung();
  return rung.empty() ? arm.name() : rung;
}

/// How much each rung saves wherever it was measured: between all arms that differ by it alone.
class RungPlaces {
 public:
  RungPlaces(const Cell& cell, const Savings& savings) : savings_(savings) {
    for (const Arm arm : cell.arms()) {
      if (const auto groups = groups_of(arm)) {
        arms_[{arm.threads(), *groups}].push_back(arm.name());
      }
    }
  }

  /// Of the rung between these two arms; null if that is none.
  Json of(const Arm& from, const Arm& to, const Json& gap) {
    const auto rung = single_difference(from, to);
    if (!rung) {
      return nullptr;
    }
    const auto [known, is_new] = saved_.try_emplace(*rung);
    if (is_new) {
      known->second = saved_by(*rung);
    }
    const auto [least, most] = std::minmax_element(known->second.begin(), known->second.end());
    const auto share = [&](double seconds) { return gap.is_null() ? Json() : Json(seconds / gap.get<double>()); };
    return {{"places", known->second.size()},
            {"low_seconds", *least},
            {"high_seconds", *most},
            {"low_share", share(*least)},
            {"high_share", share(*most)}};
  }

 private:
  std::vector<double> saved_by(const std::string& rung) const {
    constexpr std::size_t kMostPlaces = 1000;  // their number may be the square of that of arms with equal groups
    std::vector<double> saved;
    for (const auto& [of_after, after] : arms_) {
      auto of_before = of_after;
      if (of_before.second.erase(rung) == 0) {
        continue;
      }
      const auto before = arms_.find(of_before);
      if (before == arms_.end()) {
        continue;
      }
      for (const std::string& from : before->second) {
        for (const std::string& to : after) {
          if (saved.size() < kMostPlaces) {
            saved.push_back(mean_interval(savings_.between(from, to)).value);
          }
        }
      }
    }
    return saved;
  }

  const Savings& savings_;
  std::map<std::pair<int, std::set<std::string>>, std::vector<std::string>> arms_;  ///< by threads and groups
  std::map<std::string, std::vector<double>> saved_;                                ///< by rung
};

Json cause_of(const Arm& to) {
  if (const auto cause = to.cause()) {
    return *cause;
  }
  const std::string name = to.name();  // for old runs, whose arms don't record it
  return name == "replay" ? Json("dispatch, tape, allocation") : name == "graph" ? Json("passes") : Json();
}

/// Whether the passes of the rung between these two arms changed nothing. Its steps of the lowering, which are no
/// passes, would have changed a count: packed weights take memory.
bool is_same_graph(const Arm& from, const Arm& to) {
  if (!single_difference(from, to) || to.threads() > 1) {
    return false;
  }
  std::map<std::string, bool> changed;  // by the pass; a pass that isn't there changes nothing
  for (const PassEntry pass : from.passes()) {
    changed[pass.name()] = pass.changed();
  }
  for (const PassEntry pass : to.passes()) {
    if (pass.changed() != changed[pass.name()]) {
      return false;
    }
  }
  const auto& metrics = runtime::exact_metrics();
  return !to.passes().empty() && std::all_of(metrics.begin(), metrics.end(), [&](const runtime::ExactMetric& metric) {
    return from.exact(metric.name) == to.exact(metric.name);
  });
}

Json rung_json(const Cell& cell, const Savings& savings, RungPlaces& places, const Arm& from, const Arm& to,
               const Json& gap) {
  const std::string name = to.name();
  const Estimate saved = mean_interval(savings.between(from.name(), name));
  return {{"name", rung_name(to)},
          {"from", from.name()},
          {"to", name},
          {"title", to.description()},
          {"cause", cause_of(to)},
          {"saved_seconds", to_json(saved)},
          {"share", gap.is_null() ? Json() : Json(saved.value / gap.get<double>())},
          {"by_place", places.of(from, to, gap)},
          {"same_graph", is_same_graph(from, to)},
          {"ulp", to.ulp().value_or(0)},  // arms without it are timed only after they agreed on every bit
          {"seconds", to_json(to.seconds())},
          {"compile_seconds", to_json(to.compile_seconds())},
          {"break_even", cell.comparison(name).break_even().json()},
          {"planned_peak_bytes", count_json(to.exact("planned_peak_bytes"))}};
}

}  // namespace

nlohmann::json ladder_of(const Cell& cell) {
  std::vector<Arm> steps;
  for (const Arm arm : cell.arms()) {
    if (arm.in_ladder()) {
      steps.push_back(arm);
    }
  }
  if (steps.size() < 2 || !cell.validity().agree()) {
    return nullptr;
  }
  const Savings savings(cell, steps.front().name());
  if (savings.processes() == 0) {
    return nullptr;
  }
  const std::vector<double> whole = savings.between(steps.front().name(), steps.back().name());
  const Estimate gap = mean_interval(whole);
  const bool known_gap = gap.value != 0 && (!gap.has_interval() || gap.excludes(0));
  const Json unit_of_shares = known_gap ? Json(gap.value) : Json();

  RungPlaces places(cell, savings);
  Json order = {steps.front().name()};
  Json rungs = Json::array();
  std::vector<double> left = whole;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    rungs.push_back(rung_json(cell, savings, places, steps[i - 1], steps[i], unit_of_shares));
    order.push_back(steps[i].name());
    const std::vector<double> saved = savings.between(steps[i - 1].name(), steps[i].name());
    std::transform(left.begin(), left.end(), saved.begin(), left.begin(), std::minus<>());
  }
  const Estimate residual = mean_interval(left);
  const bool from_eager = order[0] == "eager" && order[1] == "replay";
  return {{"split", from_eager ? split_of(cell, savings.between("eager", "replay"), savings.unit()) : Json()},
          {"order", order},
          {"base_seconds", to_json(steps.front().seconds())},
          {"gap_seconds", to_json(gap)},
          {"rungs", rungs},
          {"residual_seconds", to_json(residual)},
          {"residual_share", known_gap ? Json(residual.value / gap.value) : Json()}};
}

Saving saving_of(const Estimate& saved) {
  Saving saving{saved.value < 0, saved};
  if (saving.costs) {
    saving.amount.value = -saved.value;
    if (saved.has_interval()) {
      saving.amount.low = -*saved.high;
      saving.amount.high = -*saved.low;
    }
  }
  return saving;
}

std::optional<RungSpan> span_of(const Cell& cell, const Rung& rung) {
  const auto to = cell.arm(rung.to()).seconds();
  const auto saved = rung.saved_seconds();
  if (!to || !saved) {
    return std::nullopt;
  }
  return RungSpan{to->value + saved->value, to->value};
}

}  // namespace diptych::reports
