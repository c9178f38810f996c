#include "reports/gate/false_positive.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/run/run.h"
#include "reports/run/verdicts.h"

namespace diptych::reports {
namespace {

bool is_alarm(const Judgement& judged) {
  const std::optional<Verdict> verdict = judged.verdict();
  return verdict == Verdict::regressed || verdict == Verdict::improved;
}

void check(std::span<const std::vector<double>> cells, const ResampledGate& gate) {
  if (cells.empty()) {
    throw Error("a false-positive rate over no cells says nothing; measure at least one cell");
  }
  if (gate.processes < 2 || gate.resamples < 1) {
    throw Error(fmt::format("a gate of {} processes, {} times, is none: two processes and one time at least",
                            gate.processes, gate.resamples));
  }
  for (const std::vector<double>& effects : cells) {
    const bool finite = std::all_of(effects.begin(), effects.end(), [](double e) { return std::isfinite(e); });
    if (effects.size() < 2 || !finite) {
      throw Error(finite ? fmt::format("{} A/A effects in a cell are too few to draw from; measure more processes",
                                       effects.size())
                         : std::string("an A/A effect is not a finite number; calibrate again"));
    }
  }
}

}  // namespace

std::vector<nlohmann::json> decide_changes(std::span<const std::vector<double>> effects,
                                           std::span<const CellState> states, const ChangeRule& rule) {
  internal_check(effects.size() == states.size(), "one state per cell");
  ChangeRule alone = rule;
  alone.p_holm.reset();
  std::vector<nlohmann::json> judged;
  std::vector<std::size_t> family;
  std::vector<double> p;
  for (std::size_t i = 0; i < effects.size(); ++i) {
    judged.push_back(decide_change(effects[i], alone, states[i]));
    const Judgement uncorrected = judged.back();
    const std::string reason = uncorrected.reason();
    const bool counts = !is_unusable(uncorrected.verdict()) && reason != "quick-size" && reason != "too-few-processes";
    if (counts) {
      family.push_back(i);
      p.push_back(change_p(effects[i], rule.delta));
    }
  }
  const std::vector<double> adjusted = holm(p);
  for (std::size_t k = 0; k < family.size(); ++k) {
    ChangeRule member = rule;
    member.p_holm = adjusted[k];
    member.family = static_cast<int>(family.size());
    judged[family[k]] = decide_change(effects[family[k]], member, states[family[k]]);
  }
  return judged;
}

RateBound false_positive_rate(std::span<const std::vector<double>> cells, const ResampledGate& gate) {
  check(cells, gate);
  CellState quiet;
  quiet.agree = true;
  const std::vector<CellState> states(cells.size(), quiet);
  std::mt19937_64 random(gate.seed);
  std::vector<std::vector<double>> drawn(cells.size(), std::vector<double>(static_cast<std::size_t>(gate.processes)));
  int alarms = 0;
  for (int b = 0; b < gate.resamples; ++b) {
    for (std::size_t p = 0; p < static_cast<std::size_t>(gate.processes); ++p) {
      const std::uint64_t draw = random();
      for (std::size_t c = 0; c < cells.size(); ++c) {
        drawn[c][p] = cells[c][draw % cells[c].size()];
      }
    }
    const std::vector<nlohmann::json> judged = decide_changes(drawn, states, gate.rule);
    alarms += std::any_of(judged.begin(), judged.end(), is_alarm) ? 1 : 0;
  }
  return clopper_pearson(alarms, gate.resamples);
}

}  // namespace diptych::reports
