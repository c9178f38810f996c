#include "reports/analyse.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/evidence.h"
#include "reports/format.h"
#include "reports/json_access.h"
#include "reports/ladder.h"
#include "reports/roofline.h"
#include "reports/text.h"
#include "reports/usage.h"
#include "reports/verdict.h"
#include "reports/warmup.h"

namespace diptych::reports {
namespace {

constexpr const char* base_name = "eager";

struct RawProcess {
  std::map<std::string, std::vector<double>> rounds;  // arm -> seconds of each round
  std::map<std::string, double> medians;
  const Json* json = nullptr;
};

double time_of(const Json& seconds, const std::string& arm, const std::string& where) {
  const auto value = number(seconds, arm);
  if (!value || !std::isfinite(*value) || *value <= 0) {
    throw Error(fmt::format("{}: arm '{}' has {}, not a positive finite time; every round times every arm", where,
                            printable(arm), value ? fmt::format("{} s", *value) : "no time"));
  }
  return *value;
}

// Processes without a round (a child that died early) don't count.
std::vector<RawProcess> read_processes(const Json& cell) {
  std::vector<RawProcess> processes;
  std::size_t index = 0;
  for (const Json& process : list(cell, "processes")) {
    ++index;
    RawProcess raw;
    raw.json = &process;
    std::size_t round_index = 0;
    for (const Json& round : list(process, "rounds")) {
      const std::string where =
          fmt::format("{}, process {}, round {}", printable(text(cell, "workload")), index, ++round_index);
      for (const Json& arm : list(cell, "arms")) {
        const std::string name = text(arm, "name");
        if (arm.contains("failed")) {
          continue;
        }
        raw.rounds[name].push_back(time_of(member(round, "seconds"), name, where));
      }
    }
    for (const auto& [name, seconds] : raw.rounds) {
      raw.medians[name] = median(seconds);
    }
    if (!raw.rounds.empty()) {
      processes.push_back(std::move(raw));
    }
  }
  return processes;
}

// One value per process of processes[].arms[]; empty when any process doesn't have it.
std::vector<double> per_process(const std::vector<RawProcess>& processes, const std::string& arm, const char* field) {
  std::vector<double> values;
  for (const RawProcess& process : processes) {
    for (const Json& entry : list(*process.json, "arms")) {
      const auto value = number(entry, field);
      if (text(entry, "name") == arm && value) {
        values.push_back(*value);
      }
    }
  }
  return values.size() == processes.size() ? values : std::vector<double>{};
}

void fill_arm(Json& arm, const std::vector<RawProcess>& processes) {
  const std::string name = text(arm, "name");
  std::vector<double> medians;
  for (const RawProcess& process : processes) {
    if (const auto found = process.medians.find(name); found != process.medians.end()) {
      medians.push_back(found->second);
    }
  }
  const std::vector<double> first = per_process(processes, name, "first_call_seconds");
  const std::vector<double> worst = per_process(processes, name, "worst_call_seconds");
  const std::vector<double> compile = per_process(processes, name, "compile_seconds");
  arm["seconds"] = medians.empty() ? Json() : to_json(time_estimate(medians));
  arm["first_call_seconds"] = first.empty() ? Json() : Json(median(first));
  arm["worst_call_seconds"] = worst.empty() ? Json() : Json(*std::max_element(worst.begin(), worst.end()));
  arm["compile_seconds"] = compile.empty() ? Json() : to_json(cost_estimate(compile));
}

Json break_even_json(const std::vector<RawProcess>& processes, const std::string& arm, std::uint64_t seed) {
  const std::vector<double> base_compile = per_process(processes, base_name, "compile_seconds");
  const std::vector<double> arm_compile = per_process(processes, arm, "compile_seconds");
  if (base_compile.empty() || arm_compile.empty()) {
    return nullptr;
  }
  std::vector<ProcessCost> costs;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    costs.push_back(
        {processes[i].medians.at(base_name), processes[i].medians.at(arm), base_compile[i], arm_compile[i]});
  }
  const BreakEven result = break_even(costs, seed);
  const auto whole = [](std::optional<double> calls, auto round) {
    return calls && *calls < 1e15 ? Json(static_cast<std::int64_t>(round(*calls))) : Json();
  };
  const auto up = [](double calls) { return std::ceil(calls); };
  const auto down = [](double calls) { return std::floor(calls); };
  return {{"reached", result.reached},
          {"calls", whole(result.calls, up)},
          {"low", whole(result.low, down)},
          {"high", whole(result.high, up)}};
}

// A comparison waits for its verdict until the whole run is known: the correction is over all of them.
struct Pending {
  Json comparison;
  std::vector<double> effects;
  CellState state;
  std::size_t cell;
};

/// An external arm has no break-even: what it compiles is in its loading, and eager's counterpart isn't measured.
Pending compare(const std::vector<RawProcess>& processes, const std::string& arm, bool is_external,
                const CellState& state, std::uint64_t seed) {
  std::vector<double> effects;
  std::vector<std::vector<double>> rounds;
  if (state.agree) {
    for (const RawProcess& process : processes) {
      rounds.push_back(log_differences(process.rounds.at(base_name), process.rounds.at(arm)));
      effects.push_back(median(rounds.back()));
    }
  }
  const bool measured = !effects.empty();
  Json comparison = {{"base", base_name},
                     {"arm", arm},
                     {"speedup", measured ? to_json(ratio_estimate(effects)) : Json()},
                     {"mde", to_json(minimum_detectable_effect(effects))},
                     {"break_even", measured && !is_external ? break_even_json(processes, arm, seed) : Json()},
                     {"evidence", measured ? evidence(rounds, seed) : Json()}};
  return {std::move(comparison), std::move(effects), state, 0};
}

// Holm's correction is over the comparisons that can get FASTER or SLOWER; those of contaminated cells don't count.
void decide_all(std::vector<Pending>& pending) {
  std::vector<Pending*> family;
  std::vector<double> p;
  for (Pending& one : pending) {
    const auto value = number(member(one.comparison, "evidence"), "p");
    if (value && !is_contaminated(one.state)) {
      family.push_back(&one);
      p.push_back(*value);
    }
  }
  const std::vector<double> adjusted = holm(p);
  for (std::size_t i = 0; i < family.size(); ++i) {
    family[i]->comparison["evidence"]["p_holm"] = adjusted[i];
  }
  for (Pending& one : pending) {
    one.comparison["verdict"] = decide(one.effects, one.state, number(member(one.comparison, "evidence"), "p_holm"));
  }
}

Json cause_of(const Json& arm) {
  if (const Json& cause = member(arm, "cause"); cause.is_string()) {
    return cause;
  }
  const std::string name = text(arm, "name");
  if (name == "replay") {
    return "dispatch, tape, allocation";
  }
  return name == "graph" ? Json("passes") : Json();
}

// Savings are differences of process medians as fractions of the same process's first arm, in units of that arm's mean
// time: the rungs add up to the whole gap exactly, and a machine that is faster in one process than in the next
// cancels.
std::vector<double> savings(const std::vector<RawProcess>& processes, const std::string& base, const std::string& from,
                            const std::string& to) {
  double unit = 0;
  for (const RawProcess& process : processes) {
    unit += process.medians.at(base) / static_cast<double>(processes.size());
  }
  std::vector<double> saved;
  for (const RawProcess& process : processes) {
    saved.push_back((process.medians.at(from) - process.medians.at(to)) / process.medians.at(base) * unit);
  }
  return saved;
}

Json ladder(const Json& cell, const std::vector<RawProcess>& processes) {
  std::vector<const Json*> steps;
  for (const Json& arm : list(cell, "arms")) {
    if (member(arm, "in_ladder") != false) {
      steps.push_back(&arm);
    }
  }
  Json rungs = Json::array();
  if (processes.empty() || steps.size() < 2) {
    return rungs;
  }
  const std::string base = text(*steps.front(), "name");
  const Estimate gap = mean_interval(savings(processes, base, base, text(*steps.back(), "name")));
  const bool known_gap = gap.value != 0 && (!gap.has_interval() || gap.excludes(0));
  for (std::size_t i = 1; i < steps.size(); ++i) {
    const std::string from = text(*steps[i - 1], "name");
    const std::string to = text(*steps[i], "name");
    const Estimate saved = mean_interval(savings(processes, base, from, to));
    rungs.push_back({{"from", from},
                     {"to", to},
                     {"cause", cause_of(*steps[i])},
                     {"saved_seconds", to_json(saved)},
                     {"share", known_gap ? Json(saved.value / gap.value) : Json()}});
  }
  return rungs;
}

}  // namespace

CellState read_state(const nlohmann::json& cell, const nlohmann::json& run) {
  CellState state;
  const Json& validity = member(cell, "validity");
  state.agree = member(validity, "agree") == true;
  state.disagreement = text(validity, "reason");
  state.quick = text(member(run, "size"), "name") == "quick";
  std::vector<double> loads;
  for (const Json& process : list(cell, "processes")) {
    const Json& load = member(process, "load");
    const auto others = number(load, "others_cpu");
    if (const auto cpus = number(load, "cpus"); others && cpus && *cpus > 0) {
      loads.push_back(*others / *cpus);
    }
    state.control_drift = std::max(state.control_drift, std::abs(number(process, "control_drift").value_or(0)));
    double measured = 0;
    for (const Json& round : list(process, "rounds")) {
      const Json& seconds = member(round, "seconds");
      for (const auto& [arm, value] : seconds.items()) {
        measured += value.is_number() ? value.get<double>() : 0;
      }
    }
    measured *= number(process, "iterations").value_or(1);
    if (measured > 0) {
      state.steal = std::max(state.steal, number(process, "steal_seconds").value_or(0) / measured);
    }
  }
  if (!loads.empty()) {
    state.others_load = median(loads);
  }
  return state;
}

void analyse(nlohmann::json& run) {
  const Json& seed_json = member(run, "seed");
  const std::uint64_t seed = seed_json.is_number_integer() ? seed_json.get<std::uint64_t>() : 0;
  if (!run.is_object() || !run.contains("cells")) {
    return;
  }
  const bool timed = is_timed(run);
  std::vector<Pending> pending;
  for (std::size_t index = 0; index < run["cells"].size(); ++index) {
    Json& cell = run["cells"][index];
    const CellState state = read_state(cell, run);
    const std::vector<RawProcess> processes = read_processes(cell);
    summarise_usage(cell);
    bool has_base = false;
    for (Json& arm : cell["arms"]) {
      fill_arm(arm, processes);
      arm["warmup"] = warmup_of(cell, text(arm, "name"));
      has_base = has_base || text(arm, "name") == base_name;
    }
    for (const Json& arm : cell["arms"]) {
      const std::string name = text(arm, "name");
      if (has_base && name != base_name && (timed || !state.agree)) {
        CellState own = state;
        if (const std::string failure = text(arm, "failed"); !failure.empty() && state.agree) {
          own.agree = false;
          own.disagreement = failure;
          own.invalid_reason = "arm-failed";
        }
        pending.push_back(compare(processes, name, arm.contains("external"), own, seed));
        pending.back().cell = index;
      }
    }
    cell["comparisons"] = Json::array();
    cell["rungs"] = state.agree ? ladder(cell, processes) : Json::array();
  }
  decide_all(pending);
  for (Pending& one : pending) {
    run["cells"][one.cell]["comparisons"].push_back(std::move(one.comparison));
  }
  for (Json& cell : run["cells"]) {  // they look into the comparisons
    cell["ladder"] = ladder_of(cell);
    cell["limits"] = limits_of(cell);
  }
}

}  // namespace diptych::reports
