#include "reports/analysis/analyse.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "framework/core/error.h"
#include "reports/analysis/cell_state.h"
#include "reports/analysis/evidence.h"
#include "reports/analysis/framework_counters.h"
#include "reports/analysis/ladder.h"
#include "reports/analysis/roofline.h"
#include "reports/analysis/usage.h"
#include "reports/analysis/verdict.h"
#include "reports/analysis/warmup.h"
#include "reports/run/run.h"
#include "reports/text/format.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

constexpr const char* base_name = "eager";

struct RawProcess {
  std::map<std::string, std::vector<double>> rounds;  // arm -> seconds of each round
  std::map<std::string, double> medians;
  Process process;
};

double time_of(const Round& round, const std::string& arm, const std::string& where) {
  const auto value = round.seconds(arm);
  if (!value || !std::isfinite(*value) || *value <= 0) {
    throw Error(fmt::format("{}: arm '{}' has {}, not a positive finite time; every round times every arm", where,
                            printable(arm), value ? fmt::format("{} s", *value) : "no time"));
  }
  return *value;
}

// Processes without a round (a child that died early) don't count.
std::vector<RawProcess> read_processes(const Cell& cell) {
  std::vector<RawProcess> processes;
  std::size_t index = 0;
  for (const Process process : cell.processes()) {
    ++index;
    RawProcess raw;
    raw.process = process;
    std::size_t round_index = 0;
    for (const Round round : process.rounds()) {
      const std::string where =
          fmt::format("{}, process {}, round {}", printable(cell.workload()), index, ++round_index);
      for (const Arm arm : cell.arms()) {
        if (!arm.has_failed()) {
          raw.rounds[arm.name()].push_back(time_of(round, arm.name(), where));
        }
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

// A figure that processes report of an arm, one value per process; empty if any process lacks it.
std::vector<double> per_process(const std::vector<RawProcess>& processes, const std::string& arm, Said field) {
  std::vector<double> values;
  for (const RawProcess& raw : processes) {
    const std::vector<double> said = said_of({&raw.process, 1}, arm, field);
    values.insert(values.end(), said.begin(), said.end());
  }
  return values.size() == processes.size() ? values : std::vector<double>{};
}

void fill_arm(Json& arm, const std::vector<RawProcess>& processes) {
  const std::string name = Arm(arm).name();
  std::vector<double> medians;
  for (const RawProcess& process : processes) {
    if (const auto found = process.medians.find(name); found != process.medians.end()) {
      medians.push_back(found->second);
    }
  }
  const std::vector<double> first = per_process(processes, name, &ArmOfProcess::first_call_seconds);
  const std::vector<double> worst = per_process(processes, name, &ArmOfProcess::worst_call_seconds);
  const std::vector<double> compile = per_process(processes, name, &ArmOfProcess::compile_seconds);
  arm["seconds"] = medians.empty() ? Json() : to_json(time_estimate(medians));
  arm["first_call_seconds"] = first.empty() ? Json() : Json(median(first));
  arm["worst_call_seconds"] = worst.empty() ? Json() : Json(*std::max_element(worst.begin(), worst.end()));
  arm["compile_seconds"] = compile.empty() ? Json() : to_json(cost_estimate(compile));
}

Json break_even_json(const std::vector<RawProcess>& processes, const std::string& arm, std::uint64_t seed) {
  const std::vector<double> base_compile = per_process(processes, base_name, &ArmOfProcess::compile_seconds);
  const std::vector<double> arm_compile = per_process(processes, arm, &ArmOfProcess::compile_seconds);
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
  Json json = {{"reached", result.reached},
               {"calls", whole(result.calls, up)},
               {"low", whole(result.low, down)},
               {"high", whole(result.high, up)}};
  if (result.uncertain) {
    json["uncertain"] = true;
  }
  return json;
}

// A comparison gets its verdict only when the whole run is known: the correction is over all comparisons.
struct Pending {
  Json comparison;
  std::vector<double> effects;
  CellState state;
  std::size_t cell;
};

/// How many times as fast as another framework's arm the graph is, paired round by round; null without a graph.
Json graph_speedup(const std::vector<RawProcess>& processes, const std::string& arm) {
  std::vector<double> effects;
  for (const RawProcess& process : processes) {
    const auto graph = process.rounds.find("graph");
    if (graph == process.rounds.end()) {
      return nullptr;
    }
    effects.push_back(median(log_differences(process.rounds.at(arm), graph->second)));
  }
  return to_json(ratio_estimate(effects));
}

/// An external arm has no break-even: it compiles while loading, and the counterpart for eager isn't measured.
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
  if (is_external) {
    comparison["graph_speedup"] = measured ? graph_speedup(processes, arm) : Json();
  }
  return {std::move(comparison), std::move(effects), state, 0};
}

// Holm's correction is over the comparisons that can become FASTER or SLOWER; those of contaminated cells don't count.
void decide_all(std::vector<Pending>& pending) {
  std::vector<Pending*> family;
  std::vector<double> p;
  for (Pending& one : pending) {
    const auto value = Comparison(one.comparison).evidence().p();
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
    one.comparison["verdict"] = decide(one.effects, one.state, Comparison(one.comparison).evidence().p_holm());
  }
}

/// The part of the ladder that readers of the first version know.
Json rungs_of_version_1(const Json& ladder) {
  Json rungs = Json::array();
  for (const Json& rung : list(ladder, "rungs")) {
    rungs.push_back({{"from", rung["from"]},
                     {"to", rung["to"]},
                     {"cause", rung["cause"]},
                     {"saved_seconds", rung["saved_seconds"]},
                     {"share", rung["share"]}});
  }
  return rungs;
}

}  // namespace

void analyse(nlohmann::json& run) {
  const Json& seed_json = Run(run).seed();
  const std::uint64_t seed = seed_json.is_number_integer() ? seed_json.get<std::uint64_t>() : 0;
  if (!run.is_object() || !run.contains("cells")) {
    return;
  }
  const bool timed = Run(run).is_timed();
  std::vector<Pending> pending;
  for (std::size_t index = 0; index < run["cells"].size(); ++index) {
    Json& cell = run["cells"][index];
    const CellState state = read_state(cell, run);
    const std::vector<RawProcess> processes = read_processes(cell);
    const std::vector<Process> all_processes = Cell(cell).processes().all();
    summarise_usage(cell);
    summarise_framework_counters(cell);
    bool has_base = false;
    for (Json& arm : cell["arms"]) {
      const std::string name = Arm(arm).name();
      fill_arm(arm, processes);
      arm["warmup"] = warmup_of(all_processes, name);
      has_base = has_base || name == base_name;
    }
    for (const Arm arm : Cell(cell).arms()) {
      const std::string name = arm.name();
      if (has_base && name != base_name && (timed || !state.agree)) {
        CellState own = state;
        if (const std::string failure = arm.failure(); !failure.empty() && state.agree) {
          own.agree = false;
          own.disagreement = failure;
          own.invalid_reason = "arm-failed";
        }
        pending.push_back(compare(processes, name, arm.is_external(), own, seed));
        pending.back().cell = index;
      }
    }
    cell["comparisons"] = Json::array();
  }
  decide_all(pending);
  for (Pending& one : pending) {
    run["cells"][one.cell]["comparisons"].push_back(std::move(one.comparison));
  }
  for (Json& cell : run["cells"]) {  // the rungs look into the comparisons
    cell["ladder"] = ladder_of(cell);
    cell["rungs"] = rungs_of_version_1(cell["ladder"]);
    cell["limits"] = limits_of(cell);
  }
}

}  // namespace diptych::reports
