#include "reports/explorer/explorer.h"

#include <algorithm>

#include <fmt/format.h>

#include "framework/core/text.h"
#include "framework/dispatch/op.h"
#include "reports/explorer/levels.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

using nlohmann::json;

json refusals_json(const ExplorerInput& input, ExplorerTables& tables) {
  json list = json::array();
  for (const passes::FusionRefusal& refusal : input.refusals) {
    if (refusal.in_region) {
      continue;  // its values have numbers of their own
    }
    list.push_back({refusal.producer, refusal.consumer,
                    tables.string(fmt::format("{} → {}", refusal.producer_op->name, refusal.consumer_op->name)),
                    tables.string(passes::reason_of(refusal.why, refusal.nanoseconds))});
  }
  return list;
}

/// The seconds of constants by arm: eager makes them in each call, pictures write them into the nodes that read them.
void add_constants(const graph::Graph& graph, const ExplorerTimes& times, std::vector<double>& seconds) {
  for (const graph::Node& node : graph.nodes) {
    for (const auto& region : node.regions) {
      add_constants(*region, times, seconds);
    }
    for (const std::uint32_t source : node.provenance.source_ops) {
      const auto found = times.ops.find(source + std::uint64_t{1});
      for (std::size_t arm = 0; is_written_out(node) && found != times.ops.end() && arm < seconds.size(); ++arm) {
        seconds[arm] += found->second[arm].seconds.value_or(0);
      }
    }
  }
}

/// [["(tape)", [seconds, null]]]: what a call of each arm takes that has no box.
json rest_json(const ExplorerTimes& times, const graph::Graph& captured) {
  json rest = json::array();
  const auto add = [&](const std::string& name, json seconds) {
    rest.push_back({shorten(printable(name), 60), std::move(seconds)});
  };
  for (const AlignedRow& row : times.rest) {
    json seconds = json::array();
    for (const ArmOfRow& of_arm : row.arms) {
      seconds.push_back(of_arm.seconds ? json(*of_arm.seconds) : json());
    }
    add(row.name, std::move(seconds));
  }
  std::vector<double> of_constants(times.arms.size());
  add_constants(captured, times, of_constants);
  if (std::any_of(of_constants.begin(), of_constants.end(), [](double seconds) { return seconds > 0; })) {
    json seconds = json::array();
    for (const double of_arm : of_constants) {
      seconds.push_back(of_arm > 0 ? json(of_arm) : json());
    }
    add("constants", std::move(seconds));
  }
  return rest;
}

/// {"arms": [{"name", "seconds"}], "ops": {"3": [[seconds, is an estimate, seconds at the machine's limit], null]}}: by
/// source op, as nodes number them (a profile counts from 1), then by arm. Without the last where it isn't known.
json times_json(const ExplorerTimes& times, const graph::Graph& captured) {
  json arms = json::array();
  for (std::size_t arm = 0; arm < times.arms.size(); ++arm) {
    arms.push_back({{"name", shorten(printable(times.arms[arm]), 40)}, {"seconds", times.total_seconds[arm]}});
  }
  json ops = json::object();
  for (const auto& [source, of_arms] : times.ops) {
    json& entry = ops[std::to_string(source - 1)] = json::array();
    for (const ArmOfRow& of_arm : of_arms) {
      if (!of_arm.seconds) {
        entry.push_back(nullptr);
        continue;
      }
      json time = {*of_arm.seconds, of_arm.is_estimate ? 1 : 0};
      if (of_arm.limit_seconds) {
        time.push_back(*of_arm.limit_seconds);
      }
      entry.push_back(std::move(time));
    }
  }
  return {{"arms", std::move(arms)}, {"ops", std::move(ops)}, {"rest", rest_json(times, captured)}};
}

}  // namespace

ExplorerData explorer_data(const ExplorerInput& input) {
  ExplorerTables tables;
  const Places places(*input.stages.front().graph);
  json stages = json::array();
  for (const ExplorerStage& stage : input.stages) {
    if (!stage.changed && !stages.empty()) {
      json same = stages.back();
      same["name"] = tables.string(stage.name);
      same["changed"] = false;
      stages.push_back(std::move(same));
      continue;
    }
    GraphLevels levels(tables, *stage.graph, places);
    const int top = levels.top("program");
    stages.push_back({{"name", tables.string(stage.name)},
                      {"changed", true},
                      {"nodes", graph::count_nodes(*stage.graph)},
                      {"level", top},
                      {"values", tables.values(levels.values())}});
    if (stages.size() == 1) {  // eager runs the ops as they are captured
      json eager = stages.front();
      eager["name"] = tables.string("eager");
      stages.insert(stages.begin(), std::move(eager));
    }
  }
  ExplorerData data;
  data.first_picture = tables.level_at(stages.back()["level"])["picture"];
  const json refusals = refusals_json(input, tables);
  data.json = tables.take_json();
  data.json["workload"] = shorten_middle(printable(shorten_middle(input.workload, 400)), 100);
  data.json["refusals"] = refusals;
  data.json["times"] = times_json(input.times, *input.stages.front().graph);
  data.json["stages"] = std::move(stages);
  data.pictures = tables.drawn(input.progress);
  return data;
}

}  // namespace diptych::reports
