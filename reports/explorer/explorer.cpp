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
  data.json["stages"] = std::move(stages);
  data.pictures = tables.pictures();
  return data;
}

}  // namespace diptych::reports
