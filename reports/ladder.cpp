#include "reports/ladder.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "reports/json_access.h"
#include "reports/ladder_split.h"
#include "reports/statistics.h"
#include "reports/summary.h"

namespace diptych::reports {
namespace {

/// Seconds by round, process by process.
using Rounds = std::vector<std::vector<double>>;

class Savings {
 public:
  Savings(const Json& cell, const std::string& base) : cell_(cell) {
    const Rounds rounds = rounds_of(base);
    for (const auto& process : rounds) {
      base_.push_back(median(process));
    }
    unit_ = base_.empty() ? 0 : std::accumulate(base_.begin(), base_.end(), 0.0) / static_cast<double>(base_.size());
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
    Rounds rounds;
    for (const Json& process : list(cell_, "processes")) {
      std::vector<double> seconds;
      for (const Json& round : list(process, "rounds")) {
        seconds.push_back(number(member(round, "seconds"), arm).value_or(0));
      }
      if (!seconds.empty()) {
        rounds.push_back(std::move(seconds));
      }
    }
    return rounds;
  }

  const Json& cell_;
  std::vector<double> base_;
  double unit_ = 0;
};

/// Empty: not a compiled arm.
std::optional<std::set<std::string>> groups_of(const Json& arm) {
  if (!member(arm, "groups").is_array()) {
    return std::nullopt;
  }
  std::set<std::string> groups;
  for (const Json& group : list(arm, "groups")) {
    groups.insert(group.is_string() ? group.get<std::string>() : "");
  }
  return groups;
}

/// The pass rung that `to` has and `from` hasn't, if it is one and all else is the same.
std::optional<std::string> single_difference(const Json& from, const Json& to) {
  const auto before = groups_of(from);
  const auto after = groups_of(to);
  if (!before || !after || after->size() != before->size() + 1) {
    return std::nullopt;
  }
  std::vector<std::string> added;
  std::set_difference(after->begin(), after->end(), before->begin(), before->end(), std::back_inserter(added));
  return added.size() == 1 ? std::optional(added[0]) : std::nullopt;
}

std::string rung_name(const Json& arm) {
  const std::string rung = text(arm, "rung");
  return rung.empty() ? text(arm, "name") : rung;
}

/// How much the rung that leads from one arm to the next saves wherever else it was measured.
Json by_place(const Json& cell, const Savings& savings, const Json& from, const Json& to, const Json& gap) {
  const auto rung = single_difference(from, to);
  if (!rung) {
    return nullptr;
  }
  std::vector<double> saved;
  for (const Json& before : list(cell, "arms")) {
    for (const Json& after : list(cell, "arms")) {
      if (single_difference(before, after) == rung) {
        saved.push_back(mean_interval(savings.between(text(before, "name"), text(after, "name"))).value);
      }
    }
  }
  const auto [least, most] = std::minmax_element(saved.begin(), saved.end());
  const auto share = [&](double seconds) { return gap.is_null() ? Json() : Json(seconds / gap.get<double>()); };
  return {{"places", saved.size()},
          {"low_seconds", *least},
          {"high_seconds", *most},
          {"low_share", share(*least)},
          {"high_share", share(*most)}};
}

Json break_even_of(const Json& cell, const std::string& arm) {
  for (const Json& comparison : list(cell, "comparisons")) {
    if (text(comparison, "arm") == arm) {
      return member(comparison, "break_even");
    }
  }
  return nullptr;
}

Json cause_of(const Json& cell, const Json& to) {
  if (member(to, "cause").is_string()) {
    return member(to, "cause");
  }
  for (const Json& rung : list(cell, "rungs")) {  // of old runs, whose arms don't say it
    if (text(rung, "to") == text(to, "name")) {
      return member(rung, "cause");
    }
  }
  return nullptr;
}

Json rung_json(const Json& cell, const Savings& savings, const Json& from, const Json& to, const Json& gap) {
  const std::string name = text(to, "name");
  const Estimate saved = mean_interval(savings.between(text(from, "name"), name));
  return {{"name", rung_name(to)},
          {"from", text(from, "name")},
          {"to", name},
          {"title", text(to, "description")},
          {"cause", cause_of(cell, to)},
          {"saved_seconds", to_json(saved)},
          {"share", gap.is_null() ? Json() : Json(saved.value / gap.get<double>())},
          {"by_place", by_place(cell, savings, from, to, gap)},
          {"ulp", number(to, "ulp").value_or(0)},  // arms without it are only timed after they agreed on every bit
          {"seconds", member(to, "seconds")},
          {"compile_seconds", member(to, "compile_seconds")},
          {"break_even", break_even_of(cell, name)},
          {"planned_peak_bytes", member(member(to, "exact"), "planned_peak_bytes")}};
}

}  // namespace

nlohmann::json ladder_of(const nlohmann::json& cell) {
  std::vector<const Json*> steps;
  for (const Json& arm : list(cell, "arms")) {
    if (member(arm, "in_ladder") != false) {
      steps.push_back(&arm);
    }
  }
  if (steps.size() < 2 || member(member(cell, "validity"), "agree") != true) {
    return nullptr;
  }
  const Savings savings(cell, text(*steps.front(), "name"));
  if (savings.processes() == 0) {
    return nullptr;
  }
  const std::vector<double> whole = savings.between(text(*steps.front(), "name"), text(*steps.back(), "name"));
  const Estimate gap = mean_interval(whole);
  const bool known_gap = gap.value != 0 && (!gap.has_interval() || gap.excludes(0));
  const Json unit_of_shares = known_gap ? Json(gap.value) : Json();

  Json order = {text(*steps.front(), "name")};
  Json rungs = Json::array();
  std::vector<double> left = whole;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    rungs.push_back(rung_json(cell, savings, *steps[i - 1], *steps[i], unit_of_shares));
    order.push_back(text(*steps[i], "name"));
    const std::vector<double> saved = savings.between(text(*steps[i - 1], "name"), text(*steps[i], "name"));
    std::transform(left.begin(), left.end(), saved.begin(), left.begin(), std::minus<>());
  }
  const Estimate residual = mean_interval(left);
  const bool from_eager = order[0] == "eager" && order[1] == "replay";
  return {{"split", from_eager ? split_of(cell, savings.between("eager", "replay"), savings.unit()) : Json()},
          {"order", order},
          {"base_seconds", member(*steps.front(), "seconds")},
          {"gap_seconds", to_json(gap)},
          {"rungs", rungs},
          {"residual_seconds", to_json(residual)},
          {"residual_share", known_gap ? Json(residual.value / gap.value) : Json()}};
}

const nlohmann::json& rungs_of(const nlohmann::json& cell) {
  const Json& rungs = list(member(cell, "ladder"), "rungs");
  return rungs.empty() ? list(cell, "rungs") : rungs;
}

}  // namespace diptych::reports
