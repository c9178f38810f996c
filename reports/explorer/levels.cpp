#include "reports/explorer/levels.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "framework/core/text.h"
#include "framework/dispatch/op.h"
#include "framework/graph/fused_op.h"
#include "reports/diagrams/graph_diagram.h"
#include "reports/text/text.h"

namespace diptych::reports {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using nlohmann::json;

/// Lanes stand side by side: three of them are to fit half a laptop's screen.
constexpr int title_columns = 36;
constexpr int title_columns_of_lane = 26;
constexpr std::size_t most_names = 3;
constexpr std::size_t most_names_of_lane = 2;
/// More values than these share one box at the edge of a picture.
constexpr std::size_t most_ends = 4;
constexpr std::size_t most_ends_of_lane = 1;

std::string shown(const std::string& text, bool in_lane) {
  return shorten_middle(printable(shorten_middle(text, 200)), in_lane ? title_columns_of_lane : title_columns);
}

std::string counted(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// "gelu, add and 3 more"
std::string names_of(const Graph& graph, const std::vector<std::size_t>& nodes, std::size_t most = most_names) {
  std::vector<std::string> names;
  for (const std::size_t node : nodes) {
    const std::string name = graph.nodes[node].op->name;
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

/// Several regions have the same ops.
std::string fused_names(const Node& node) {
  const Graph& region = *node.regions.front();
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < region.nodes.size(); ++i) {
    if (!is_written_out(region.nodes[i])) {
      all.push_back(i);
    }
  }
  return names_of(region, all) + (node.regions.size() > 1 ? fmt::format(" for {} tensors", node.regions.size()) : "");
}

/// Without what all instances' names end with: "blocks.0.layer" -> "blocks.0".
std::vector<std::string> instance_names(const GraphPart& repeat) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < repeat.parts.size(); ++i) {
    const std::string& name = repeat.parts[i].name;
    names.push_back(name.empty() ? fmt::format("{} of {}", i + 1, repeat.parts.size()) : name);
  }
  while (true) {
    const std::size_t dot = names.front().rfind('.');
    if (dot == std::string::npos || dot == 0) {
      return names;
    }
    const std::string end = names.front().substr(dot);
    const bool is_common = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      return name.size() > end.size() && name.ends_with(end);
    });
    if (!is_common) {
      return names;
    }
    for (std::string& name : names) {
      name.resize(name.size() - end.size());
    }
  }
}

/// Modules of a sequence have numbers for names.
std::string module_name(const std::string& name) {
  return !name.empty() && name.front() >= '0' && name.front() <= '9' ? "module " + name : name;
}

}  // namespace

/// A level while it is put together: what leads into it and out of it, and between its boxes.
struct GraphLevels::Picture {
  std::set<std::pair<std::size_t, std::size_t>> edges;  ///< between boxes
  Ends ins, outs;
  std::vector<std::map<std::string, std::size_t>> from_lanes;  ///< by box: how many values it reads of another lane
};

GraphLevels::GraphLevels(ExplorerTables& tables, const Graph& graph, const Places& places, const Node* of_region)
    : tables_(tables), graph_(graph), places_(places), of_region_(of_region), constants_(constant_texts(graph)) {
  maker_.assign(graph.types.size(), nobody);
  users_.resize(graph.types.size());
  is_output_.resize(graph.types.size());
  is_update_.resize(graph.types.size());
  is_parameter_.resize(graph.types.size());
  is_constant_.resize(graph.types.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    lanes_.push_back(of_region != nullptr ? Lane::forward : places.of(graph.nodes[i].provenance).lane);
    for (const ValueId output : graph.nodes[i].outputs) {
      maker_[output] = i;
    }
    for (const ValueId input : graph.nodes[i].inputs) {
      if (users_[input].empty() || users_[input].back() != i) {
        users_[input].push_back(i);
      }
    }
  }
  for (const ValueId output : graph.outputs) {
    is_output_[output] = true;
  }
  for (const graph::Update& update : graph.updates) {
    is_update_[update.value] = true;
  }
  for (const graph::Input& input : graph.inputs) {
    is_parameter_[input.value] = input.kind != graph::InputKind::argument;
    names_[input.value] = input.name;
  }
  for (const auto& [value, tensor] : graph.constants) {
    is_constant_[value] = true;
  }
  if (of_region == nullptr) {
    outline_ = outline_of(graph, places);
  } else {
    outline_.push_back({Lane::forward, outline_of_region(graph, places)});
  }
}

int GraphLevels::top(const std::string& title) {
  std::vector<Box> boxes;
  for (const LaneOutline& lane : outline_) {
    for (const GraphPart& part : lane.parts) {
      boxes.push_back({&part, outline_.size() > 1 ? name_of(lane.lane) : "", nodes_of(part)});
    }
  }
  return level(boxes, title, title, std::nullopt);
}

int GraphLevels::level_of(const GraphPart& part, const std::string& path, const std::string& title, Lane lane) {
  std::vector<Box> boxes;
  if (part.kind == GraphPart::Kind::op) {
    boxes.push_back({&part, "", {part.node}});
  }
  for (const GraphPart& inner : part.parts) {
    boxes.push_back({&inner, "", nodes_of(inner)});
  }
  return level(boxes, path, title, lane);
}

bool GraphLevels::are_merged(const std::vector<Box>& boxes, const Ends& ends) {
  std::set<std::string> lanes;  // what several read would tie them to one another
  for (const auto& [value, touched] : ends) {
    for (const std::size_t box : touched) {
      lanes.insert(boxes[box].cluster);
    }
  }
  const bool is_of_lane = lanes.size() == 1 && !lanes.begin()->empty();
  return ends.size() > (is_of_lane ? most_ends_of_lane : most_ends);
}

int GraphLevels::level(const std::vector<Box>& boxes, const std::string& path, const std::string& title,
                       std::optional<Lane> lane) {
  Picture picture;
  find_reads(boxes, lane, picture);
  find_results(boxes, lane, picture);
  Diagram diagram;
  diagram.legend = false;
  json entries = json::array();
  const auto id = [&] { return std::to_string(diagram.nodes.size()); };
  // In: before the boxes; out: behind them. Boxes of the level are numbered from `first` on.
  const std::size_t first = are_merged(boxes, picture.ins) ? 1 : picture.ins.size();
  const auto add_ends = [&](auto& ends, const char* name, NodeClass node_class, bool leads_in) {
    const bool merged = are_merged(boxes, ends);
    for (std::size_t i = 0; i < (merged ? std::min<std::size_t>(1, ends.size()) : ends.size()); ++i) {
      DiagramNode node;
      node.id = id();
      node.label = merged ? std::vector<std::string>{fmt::format("{}: {} values", name, ends.size())}
                          : std::vector<std::string>{name, to_string(graph_.types[ends[i].first])};
      node.node_class = node_class;
      json values = json::array();
      std::set<std::size_t> touched;
      for (std::size_t j = merged ? 0 : i; j < (merged ? ends.size() : i + 1); ++j) {
        values.push_back(reference(ends[j].first));
        touched.insert(ends[j].second.begin(), ends[j].second.end());
      }
      for (const std::size_t box : touched) {
        const std::string other = std::to_string(first + box);
        diagram.edges.push_back({leads_in ? node.id : other, leads_in ? other : node.id, ""});
      }
      diagram.nodes.push_back(std::move(node));
      entries.push_back({{leads_in ? "in" : "out", std::move(values)}});
    }
  };
  add_ends(picture.ins, "in", NodeClass::input, true);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    DiagramNode node = drawn(boxes[i], picture.from_lanes[i]);
    node.id = id();
    diagram.nodes.push_back(std::move(node));
    entries.push_back(entry_of(boxes[i], path, lane.value_or(lane_of(boxes[i].nodes.front()))));
  }
  for (const auto& [from, to] : picture.edges) {
    diagram.edges.push_back({std::to_string(first + from), std::to_string(first + to), ""});
  }
  // Lanes are columns, in program order.
  for (std::size_t i = 1; i < boxes.size(); ++i) {
    if (!boxes[i].cluster.empty() && boxes[i].cluster == boxes[i - 1].cluster && !picture.edges.contains({i - 1, i})) {
      diagram.edges.push_back({std::to_string(first + i - 1), std::to_string(first + i), "", true});
    }
  }
  add_ends(picture.outs, "out", NodeClass::output, false);
  json entry = {{"path", tables_.string(path)},
                {"title", tables_.string(title)},
                {"picture", tables_.picture(diagram)},
                {"boxes", std::move(entries)}};
  if (json parameters = with_parameters(std::move(diagram), boxes, first); !parameters.is_null()) {
    entry["parameters"] = std::move(parameters);
  }
  return tables_.level(entry);
}

void GraphLevels::find_reads(const std::vector<Box>& boxes, std::optional<Lane> lane, Picture& picture) const {
  std::map<std::size_t, std::size_t> box_of_node;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (const std::size_t node : boxes[i].nodes) {
      box_of_node[node] = i;
    }
  }
  picture.from_lanes.resize(boxes.size());
  std::map<ValueId, std::size_t> known;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    std::set<ValueId> read;
    for (const std::size_t node : boxes[i].nodes) {
      read.insert(graph_.nodes[node].inputs.begin(), graph_.nodes[node].inputs.end());
    }
    for (const ValueId value : read) {
      const std::size_t maker = maker_[value];
      if (is_parameter_[value] || constants_.contains(value)) {
        continue;
      }
      const auto inside = maker == nobody ? box_of_node.end() : box_of_node.find(maker);
      if (inside != box_of_node.end()) {
        const Box& other = boxes[inside->second];
        if (other.cluster != boxes[i].cluster) {
          ++picture.from_lanes[i][other.cluster];
        } else if (inside->second != i) {
          picture.edges.emplace(inside->second, i);
        }
      } else if (maker != nobody && lane && lane_of(maker) != *lane) {
        ++picture.from_lanes[i][name_of(lane_of(maker))];
      } else {
        const auto [entry, is_new] = known.try_emplace(value, picture.ins.size());
        if (is_new) {
          picture.ins.push_back({value, {}});
        }
        std::set<std::size_t>& readers = picture.ins[entry->second].second;
        // An arrow from lane to lane would tie the columns to one another.
        if (readers.empty() || boxes[*readers.begin()].cluster == boxes[i].cluster) {
          readers.insert(i);
        } else {
          ++picture.from_lanes[i]["arguments"];
        }
      }
    }
  }
}

void GraphLevels::find_results(const std::vector<Box>& boxes, std::optional<Lane> lane, Picture& picture) const {
  std::set<std::size_t> inside;
  for (const Box& box : boxes) {
    inside.insert(box.nodes.begin(), box.nodes.end());
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (const std::size_t node : boxes[i].nodes) {
      for (const ValueId output : graph_.nodes[node].outputs) {
        const bool leaves = std::any_of(users_[output].begin(), users_[output].end(), [&](std::size_t user) {
          return !inside.contains(user) && (!lane || lane_of(user) == *lane);
        });
        if (leaves || is_output_[output]) {
          picture.outs.push_back({output, {i}});
        }
      }
    }
  }
}

std::string GraphLevels::results_of(const Box& box) const {
  const std::set<std::size_t> inside(box.nodes.begin(), box.nodes.end());
  std::vector<ValueId> results;
  for (const std::size_t node : box.nodes) {
    for (const ValueId output : graph_.nodes[node].outputs) {
      const bool leaves = std::any_of(users_[output].begin(), users_[output].end(),
                                      [&](std::size_t user) { return !inside.contains(user); });
      if (leaves || is_output_[output] || is_update_[output]) {
        results.push_back(output);
      }
    }
  }
  return results.empty()       ? "no result"
         : results.size() == 1 ? to_string(graph_.types[results.front()])
                               : counted(results.size(), "result");
}

std::size_t GraphLevels::updates_of(const Box& box) const {
  std::size_t count = 0;
  for (const std::size_t node : box.nodes) {
    for (const ValueId output : graph_.nodes[node].outputs) {
      count += is_update_[output] ? 1 : 0;
    }
  }
  return count;
}

DiagramNode GraphLevels::drawn(const Box& box, const std::map<std::string, std::size_t>& from_lanes) const {
  const GraphPart& part = *box.part;
  DiagramNode node;
  const bool in_lane = !box.cluster.empty();
  const std::size_t names = in_lane ? most_names_of_lane : most_names;
  const std::string results = results_of(box);
  const std::string ops = counted(box.nodes.size(), "op");
  switch (part.kind) {
    case GraphPart::Kind::op: {
      const Node& op = graph_.nodes[part.node];
      const bool is_fused = op.op == &graph::fused_op();
      std::string title = is_fused ? "fused: " + fused_names(op) : std::string(op.op->name);
      for (const ValueId input : op.inputs) {
        title += is_in_title(input) ? " " + constants_.at(input) : "";
      }
      node.label = {shown(part.name.empty() ? title : fmt::format("{}: {}", part.name, title), in_lane), results};
      node.node_class = is_fused ? NodeClass::fused : node_class_from(std::string(op.op->family_name()));
      break;
    }
    case GraphPart::Kind::scope:
      node.label = {shown(module_name(part.name), in_lane), fmt::format("{} → {}", ops, results)};
      break;
    case GraphPart::Kind::repeat: {
      const std::vector<std::string> instances = instance_names(part);
      const bool is_named = !part.parts.front().name.empty();
      const std::vector<std::size_t> each = nodes_of(part.parts.front());
      node.label = {shown(is_named ? module_name(fmt::format("{} to {}", instances.front(), instances.back()))
                                   : names_of(graph_, each, names),
                          in_lane),
                    fmt::format("× {}, {} each", instances.size(), counted(each.size(), "op"))};
      break;
    }
    case GraphPart::Kind::stretch:
      node.label = {shown(names_of(graph_, box.nodes, names), in_lane), fmt::format("{} → {}", ops, results)};
      break;
  }
  for (const auto& [lane, count] : from_lanes) {
    node.label.push_back(fmt::format("reads {} of {}", counted(count, "value"), lane));
  }
  if (const std::size_t updates = updates_of(box); updates > 0) {
    node.label.push_back(fmt::format("updates {}", counted(updates, "state")));
  }
  if (!box.cluster.empty()) {
    node.scope = {box.cluster};
  }
  return node;
}

json GraphLevels::entry_of(const Box& box, const std::string& path, Lane lane) {
  const GraphPart& part = *box.part;
  if (part.kind == GraphPart::Kind::op) {
    const Node& node = graph_.nodes[part.node];
    json entry = {{"node", node_entry(part.node)}};
    add_regions(entry, node, path);
    return entry;
  }
  json levels = json::array();
  json names = json::array();
  const std::string here =
      path.find(" / ") == std::string::npos && outline_.size() > 1 ? fmt::format("{} / {}", path, name_of(lane)) : path;
  const auto add = [&](const GraphPart& opened, const std::string& name) {
    levels.push_back(level_of(opened, fmt::format("{} / {}", here, name), name, lane));
    names.push_back(tables_.string(name));
  };
  if (part.kind == GraphPart::Kind::repeat) {
    const std::vector<std::string> shown_names = instance_names(part);
    for (std::size_t i = 0; i < part.parts.size(); ++i) {
      add(part.parts[i], shown_names[i]);
    }
  } else if (part.kind == GraphPart::Kind::scope) {
    add(part, part.name);
  } else {
    add(part, fmt::format("ops {} to {}", box.nodes.front(), box.nodes.back()));
  }
  return {{"levels", std::move(levels)}, {"names", std::move(names)}, {"kind", static_cast<int>(part.kind)}};
}

void GraphLevels::add_regions(json& entry, const Node& node, const std::string& path) {
  const bool is_fused = node.op == &graph::fused_op();
  for (std::size_t i = 0; i < node.regions.size(); ++i) {
    const auto& region = node.regions[i];
    std::string name = is_fused ? "fused: " + fused_names(node) : fmt::format("{}: {}", node.op->name, region->name);
    if (is_fused && node.regions.size() > 1) {
      name = fmt::format("{}, {} of {}", name, i + 1, node.regions.size());
    }
    const std::uint32_t source = node.provenance.source_ops.empty() ? 0 : node.provenance.source_ops.front();
    GraphLevels inner(tables_, *region, places_, &node);
    std::vector<Box> boxes;
    for (const GraphPart& part : inner.outline_.front().parts) {
      boxes.push_back({&part, "", nodes_of(part)});
    }
    entry["levels"].push_back(inner.level(boxes, fmt::format("{} / {} #{}", path, name, source), name, std::nullopt));
    entry["names"].push_back(tables_.string(name));
  }
}

/// Values of regions count downwards from -1: they have numbers of their own. What a fused node reads is known by its
/// number outside.
std::int64_t GraphLevels::reference(ValueId value) const {
  if (of_region_ == nullptr) {
    return value;
  }
  if (of_region_->op == &graph::fused_op()) {
    const std::vector<graph::FusedPart> parts = graph::parts_of(of_region_->regions);
    const auto own =
        std::find_if(parts.begin(), parts.end(), [&](const auto& part) { return &part.region == &graph_; });
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (graph_.inputs[i].value == value) {
        return of_region_->inputs[own->first_input + i];
      }
    }
  }
  return -1 - static_cast<std::int64_t>(value);
}

/// [op, attributes, types, scope, where, lane, source ops, reads, makes]
int GraphLevels::node_entry(std::size_t index) {
  const Node& node = graph_.nodes[index];
  std::string types;
  json makes = json::array();
  for (const ValueId output : node.outputs) {
    types += (types.empty() ? "" : ", ") + to_string(graph_.types[output]);
    makes.push_back(reference(output));
  }
  json reads = json::array();
  for (const ValueId input : node.inputs) {
    if (const auto constant = constants_.find(input); constant != constants_.end() && !is_folded(input)) {
      reads.push_back(constant->second);
    } else {
      reads.push_back(reference(input));
    }
  }
  const Place place = places_.of(node.provenance);
  const Location where = node.provenance.where;
  const bool is_fused = node.op == &graph::fused_op();
  return tables_.node({tables_.string(is_fused ? "fused: " + fused_names(node) : std::string(node.op->name)),
                       tables_.string(node.attributes.print()), tables_.string(types), tables_.string(place.scope),
                       tables_.string(where.line > 0 ? to_string(where) : ""), static_cast<int>(place.lane),
                       node.provenance.source_ops, std::move(reads), std::move(makes), bytes_of_node(node)});
}

std::size_t GraphLevels::bytes_of_node(const Node& node) const {
  if (node.op->kind == OpKind::view) {
    return 0;  // strides
  }
  std::size_t bytes = 0;
  for (const auto* values : {&node.inputs, &node.outputs}) {
    for (const ValueId value : *values) {
      bytes += bytes_of(graph_.types[value]);
    }
  }
  return bytes;
}

}  // namespace diptych::reports
