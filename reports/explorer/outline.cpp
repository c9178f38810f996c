#include "reports/explorer/outline.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

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

void insert(std::vector<Part>& parts, std::string_view scope, std::size_t node, std::size_t depth = 0) {
  if (scope.empty()) {
    parts.push_back({Part::Kind::op, "", node});
    return;
  }
  const std::size_t dot = depth + 1 == deepest ? std::string_view::npos : scope.find('.');
  const std::string name = shorten_middle(scope.substr(0, dot), name_columns);
  // From the back: the module that ran last is the one that goes on.
  const auto known = std::find_if(parts.rbegin(), parts.rend(), [&](const Part& part) {
    return part.kind == Part::Kind::scope && part.name == name;
  });
  Part& home = known != parts.rend() ? *known : parts.emplace_back(Part{Part::Kind::scope, name});
  insert(home.parts, dot == std::string_view::npos ? "" : scope.substr(dot + 1), node, depth + 1);
}

std::string joined(const std::string& outer, const std::string& inner) {
  return outer.empty() || inner.empty() ? outer + inner : outer + "." + inner;
}

/// A module that holds one thing is that thing.
Part unwrapped(Part part) {
  if (part.kind != Part::Kind::scope || part.parts.size() != 1) {
    return part;
  }
  Part only = std::move(part.parts.front());
  if (only.kind == Part::Kind::repeat) {
    for (Part& instance : only.parts) {
      instance.name = joined(part.name, instance.name);
    }
  }
  if (only.kind != Part::Kind::stretch) {
    only.name = joined(part.name, only.name);
  }
  return only;
}

/// Too many boxes become boxes of about a dozen of them.
std::vector<Part> in_stretches(std::vector<Part> parts, std::size_t most) {
  while (parts.size() > most) {
    const std::size_t length = std::max<std::size_t>(12, (parts.size() + most - 1) / most);
    std::vector<Part> stretches;
    for (std::size_t start = 0; start < parts.size(); start += length) {
      Part stretch{Part::Kind::stretch, ""};
      const auto from = std::make_move_iterator(parts.begin() + static_cast<std::ptrdiff_t>(start));
      stretch.parts.assign(from, from + static_cast<std::ptrdiff_t>(std::min(length, parts.size() - start)));
      stretches.push_back(std::move(stretch));
    }
    parts = std::move(stretches);
  }
  return parts;
}

void fold(const Graph& graph, Structures& structures, std::vector<Part>& parts, std::size_t most) {
  for (Part& part : parts) {
    fold(graph, structures, part.parts, kMostBoxes);
    part = unwrapped(std::move(part));
  }
  parts = in_stretches(fold_repeats(graph, structures, std::move(parts), many_ops), most);
}

}  // namespace

bool is_written_out(const graph::Node& node) { return node.op == &op::full; }

std::vector<LaneOutline> outline_of(const Graph& graph, const Places& places) {
  std::array<std::vector<Part>, 3> by_lane;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is_written_out(graph.nodes[i])) {
      const Place place = places.of(graph.nodes[i].provenance);
      insert(by_lane[static_cast<std::size_t>(place.lane)], place.scope, i);
    }
  }
  const auto used = std::count_if(by_lane.begin(), by_lane.end(), [](const auto& parts) { return !parts.empty(); });
  Structures structures(graph);
  std::vector<LaneOutline> lanes;
  for (const Lane lane : {Lane::forward, Lane::backward, Lane::optimizer}) {
    std::vector<Part>& parts = by_lane[static_cast<std::size_t>(lane)];
    if (!parts.empty()) {
      fold(graph, structures, parts, used > 1 ? kMostBoxes / 2 : kMostBoxes);
      lanes.push_back({lane, std::move(parts)});
    }
  }
  return lanes;
}

std::vector<Part> outline_of_region(const Graph& region, const Places& places) {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < region.nodes.size(); ++i) {
    if (!is_written_out(region.nodes[i])) {
      insert(parts, places.of(region.nodes[i].provenance).scope, i);
    }
  }
  Structures structures(region);
  fold(region, structures, parts, kMostBoxes);
  return parts;
}

std::vector<std::size_t> nodes_of(const Part& part) {
  if (part.kind == Part::Kind::op) {
    return {part.node};
  }
  std::vector<std::size_t> nodes;
  for (const Part& inner : part.parts) {
    const std::vector<std::size_t> more = nodes_of(inner);
    nodes.insert(nodes.end(), more.begin(), more.end());
  }
  return nodes;
}

}  // namespace diptych::reports
