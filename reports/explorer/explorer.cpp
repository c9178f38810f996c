#include "reports/explorer/explorer.h"

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
    const std::string by = refusal.nanoseconds > 0 ? fmt::format(" by {:.0f} ns", refusal.nanoseconds) : "";
    list.push_back({refusal.producer, refusal.consumer,
                    tables.string(fmt::format("{} → {}", refusal.producer_op->name, refusal.consumer_op->name)),
                    tables.string(fmt::format("{}: {}{}", passes::name_of(refusal.why),
                                              passes::explanation_of(refusal.why), by))});
  }
  return list;
}

/// {"arms": [{"name", "seconds"}], "ops": {"3": [[seconds, is an estimate], null]}}: by source op, as nodes number them
/// (a profile counts from 1), then by arm.
json times_json(const ExplorerTimes& times) {
  json arms = json::array();
  for (std::size_t arm = 0; arm < times.arms.size(); ++arm) {
    arms.push_back({{"name", shorten(printable(times.arms[arm]), 40)}, {"seconds", times.total_seconds[arm]}});
  }
  json ops = json::object();
  for (const auto& [source, of_arms] : times.ops) {
    json& entry = ops[std::to_string(source - 1)] = json::array();
    for (const ArmOfRow& of_arm : of_arms) {
      entry.push_back(of_arm.seconds ? json{*of_arm.seconds, of_arm.is_estimate ? 1 : 0} : json());
    }
  }
  return {{"arms", std::move(arms)}, {"ops", std::move(ops)}};
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
  }
  ExplorerData data;
  data.first_picture = tables.level_at(stages.back()["level"])["picture"];
  const json refusals = refusals_json(input, tables);
  data.json = tables.take_json();
  data.json["workload"] = shorten_middle(printable(shorten_middle(input.workload, 400)), 100);
  data.json["refusals"] = refusals;
  data.json["times"] = times_json(input.times);
  data.json["stages"] = std::move(stages);
  data.pictures = tables.pictures();
  return data;
}

}  // namespace diptych::reports
