#include "reports/explorer/outline.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "framework/core/text.h"
#include "framework/ops/creation_ops.h"
#include "reports/explorer/structure.h"

namespace diptych::reports {
namespace {

using graph::Graph;

/// A scope may have any depth: what lies deeper stands in the name of the last level.
constexpr std::size_t deepest = 16;
constexpr int name_columns = 60;
/// In lists of so many boxes, series of ops that repeat are folded, too.
constexpr std::size_t many_ops = 20;

/// Where modules stand: each one in its list of parts, by name.
struct ModulePlaces {
  std::size_t place = 0;
  std::map<std::string, std::unique_ptr<ModulePlaces>> inside = {};
};

void insert(std::vector<GraphPart>& parts, ModulePlaces& places, std::string_view scope, std::size_t node,
            std::size_t depth = 0) {
  if (scope.empty()) {
    parts.push_back({GraphPart::Kind::op, "", node});
    return;
  }
  const std::size_t dot = depth + 1 == deepest ? std::string_view::npos : scope.find('.');
  std::string name = shorten_middle(scope.substr(0, dot), name_columns);
  std::unique_ptr<ModulePlaces>& known = places.inside[name];
  if (known == nullptr) {
    known = std::make_unique<ModulePlaces>(ModulePlaces{parts.size()});
    parts.push_back({GraphPart::Kind::scope, std::move(name)});
  }
  insert(parts[known->place].parts, *known, dot == std::string_view::npos ? "" : scope.substr(dot + 1), node,
         depth + 1);
}

std::string joined(const std::string& outer, const std::string& inner) {
  return outer.empty() || inner.empty() ? outer + inner : outer + "." + inner;
}

/// A module that holds one thing is that thing.
GraphPart unwrapped(GraphPart part) {
  if (part.kind != GraphPart::Kind::scope || part.parts.size() != 1) {
    return part;
  }
  GraphPart only = std::move(part.parts.front());
  if (only.kind == GraphPart::Kind::repeat) {
    for (GraphPart& instance : only.parts) {
      instance.name = joined(part.name, instance.name);
    }
  }
  if (only.kind != GraphPart::Kind::stretch) {
    only.name = joined(part.name, only.name);
  }
  return only;
}

constexpr std::size_t stretch_length = 12;

/// Boxes of about a dozen of them each; `only_ops`: of neighbours that are ops, modules stay as they are.
std::vector<GraphPart> gathered(std::vector<GraphPart> parts, std::size_t length, bool only_ops) {
  std::vector<GraphPart> out;
  bool is_open = false;
  for (GraphPart& part : parts) {
    const bool may_join = !only_ops || part.kind == GraphPart::Kind::op;
    if (!may_join) {
      out.push_back(std::move(part));
      is_open = false;
      continue;
    }
    if (!is_open || out.back().parts.size() == length) {
      out.push_back({GraphPart::Kind::stretch, ""});
      is_open = true;
    }
    out.back().parts.push_back(std::move(part));
  }
  for (GraphPart& part : out) {  // a box around one thing says nothing
    if (part.kind == GraphPart::Kind::stretch && part.parts.size() == 1) {
      GraphPart only = std::move(part.parts.front());
      part = std::move(only);
    }
  }
  return out;
}

std::vector<GraphPart> in_stretches(std::vector<GraphPart> parts, std::size_t most) {
  if (parts.size() > most) {
    parts = gathered(std::move(parts), stretch_length, true);
  }
  while (parts.size() > most) {
    const std::size_t length = std::max(stretch_length, (parts.size() + most - 1) / most);
    parts = gathered(std::move(parts), length, false);
  }
  return parts;
}

void fold(const Graph& graph, Structures& structures, std::vector<GraphPart>& parts, std::size_t most) {
  for (GraphPart& part : parts) {
    fold(graph, structures, part.parts, kMostBoxes);
    part = unwrapped(std::move(part));
  }
  parts = in_stretches(fold_repeats(graph, structures, std::move(parts), many_ops), most);
}

}  // namespace

bool is_written_out(const graph::Node& node) { return node.op == &op::full; }

std::vector<LaneOutline> outline_of(const Graph& graph, const Places& places) {
  std::array<std::vector<GraphPart>, 3> by_lane;
  std::array<ModulePlaces, 3> places_by_lane;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_written_out(graph.nodes[i])) {
      const Place place = places.of(graph.nodes[i].provenance);
      const auto lane = static_cast<std::size_t>(place.lane);
      insert(by_lane[lane], places_by_lane[lane], place.scope, i);
    }
  }
  const auto used = std::count_if(by_lane.begin(), by_lane.end(), [](const auto& parts) { return !parts.empty(); });
  Structures structures(graph);
  std::vector<LaneOutline> lanes;
  for (const Lane lane : {Lane::forward, Lane::backward, Lane::optimizer}) {
    std::vector<GraphPart>& parts = by_lane[static_cast<std::size_t>(lane)];
    if (!parts.empty()) {
      fold(graph, structures, parts, used > 1 ? kMostBoxesOfLane : kMostBoxes);
      lanes.push_back({lane, std::move(parts)});
    }
  }
  return lanes;
}

std::vector<GraphPart> outline_of_region(const Graph& region, const Places& places) {
  std::vector<GraphPart> parts;
  ModulePlaces modules;
  for (std::size_t i = 0; i < region.nodes.size(); ++i) {
    if (!is_written_out(region.nodes[i])) {
      insert(parts, modules, places.of(region.nodes[i].provenance).scope, i);
    }
  }
  Structures structures(region);
  fold(region, structures, parts, kMostBoxes);
  return parts;
}

std::vector<std::size_t> nodes_of(const GraphPart& part) {
  if (part.kind == GraphPart::Kind::op) {
    return {part.node};
  }
  std::vector<std::size_t> nodes;
  for (const GraphPart& inner : part.parts) {
    const std::vector<std::size_t> more = nodes_of(inner);
    nodes.insert(nodes.end(), more.begin(), more.end());
  }
  return nodes;
}

}  // namespace diptych::reports
