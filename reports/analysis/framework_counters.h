#pragma once

#include <nlohmann/json.hpp>

/// What other frameworks' arms have counted, as metrics of their cell.
namespace diptych::reports {

/// Puts the medians over the cell's processes among its metrics, instead of those that stand there for such arms.
/// `graph_breaks` becomes "graph breaks"; what ends in _seconds or _bytes has that unit.
void summarise_framework_counters(nlohmann::json& cell);

}  // namespace diptych::reports
