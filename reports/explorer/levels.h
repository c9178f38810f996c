#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "framework/graph/ir.h"
#include "reports/explorer/outline.h"
#include "reports/explorer/tables.h"

namespace diptych::reports {

/// The levels of one graph, or of a region: a picture for each part that opens, and what its boxes stand for.
class GraphLevels {
 public:
  /// `of_region`: the node that has the graph as a region; its arguments are what that node reads, if it's fused.
  GraphLevels(ExplorerTables& tables, const graph::Graph& graph, const Places& places,
              const graph::Node* of_region = nullptr);

  /// The level that a stage opens with: its index.
  int top(const std::string& title);
  /// {"3": [kind, name, type, bytes]}: the graph's inputs and tensors that are constants; kind 3 is a constant, the
  /// others are those of InputKind.
  nlohmann::json values() const;

 private:
  struct Box {
    const GraphPart* part;
    std::string cluster;
    std::vector<std::size_t> nodes;
  };
  /// Values that come in or go out, and the boxes that read or make them.
  using Ends = std::vector<std::pair<graph::ValueId, std::set<std::size_t>>>;
  struct Picture;
  /// A parameter, state or constant that a box reads, or all of many.
  struct Chip {
    std::string text;
    std::vector<graph::ValueId> values;
  };

  int level(const std::vector<Box>& boxes, const std::string& path, const std::string& title, std::optional<Lane> lane);
  /// Whether they share one box.
  static bool are_merged(const std::vector<Box>& boxes, const Ends& ends);
  int level_of(const GraphPart& part, const std::string& path, const std::string& title, Lane lane);
  nlohmann::json entry_of(const Box& box, const std::string& path, Lane lane);
  void add_regions(nlohmann::json& entry, const graph::Node& node, const std::string& path);
  DiagramNode drawn(const Box& box, const std::map<std::string, std::size_t>& from_lanes) const;
  std::string results_of(const Box& box) const;
  std::size_t updates_of(const Box& box) const;
  void find_reads(const std::vector<Box>& boxes, std::optional<Lane> lane, Picture& picture) const;
  void find_results(const std::vector<Box>& boxes, std::optional<Lane> lane, Picture& picture) const;
  int node_entry(std::size_t index);
  /// Small constants stand in the name of the op that reads them.
  bool is_in_title(graph::ValueId value) const;
  /// Drawn only when asked: parameters, states, and constants that no title has.
  bool is_folded(graph::ValueId value) const;
  std::string text_of(graph::ValueId value, const std::string& scope) const;
  std::vector<Chip> chips_of(const Box& box) const;
  /// {"picture", "chips": [[box, [values]]]}: the same picture with them; null: there are none. The boxes are nodes of
  /// the diagram from `first` on.
  nlohmann::json with_parameters(Diagram diagram, const std::vector<Box>& boxes, std::size_t first);
  /// That it reads and writes, if every operand is moved once.
  std::size_t bytes_of_node(const graph::Node& node) const;
  std::int64_t reference(graph::ValueId value) const;
  Lane lane_of(std::size_t node) const { return lanes_[node]; }

  static constexpr std::size_t nobody = SIZE_MAX;

  ExplorerTables& tables_;
  const graph::Graph& graph_;
  const Places& places_;
  const graph::Node* of_region_;
  std::vector<LaneOutline> outline_;
  std::map<graph::ValueId, std::string> constants_;
  std::vector<Lane> lanes_;                      ///< by node
  std::vector<std::size_t> maker_;               ///< by value: the node, or nobody
  std::vector<std::vector<std::size_t>> users_;  ///< by value: nodes
  std::vector<bool> is_output_, is_update_, is_parameter_;
  std::vector<bool> is_constant_;                ///< a tensor computed while compiling
  std::map<graph::ValueId, std::string> names_;  ///< of inputs
};

}  // namespace diptych::reports
