#pragma once

#include <map>
#include <optional>
#include <string>
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
  /// {"3": "state \"norm.weight\": f32[64]"}: the graph's inputs.
  nlohmann::json values() const;

 private:
  struct Box {
    const GraphPart* part;
    std::string cluster;
    std::vector<std::size_t> nodes;
  };
  struct Picture;

  int level(const std::vector<Box>& boxes, const std::string& path, const std::string& title, std::optional<Lane> lane);
  int level_of(const GraphPart& part, const std::string& path, const std::string& title, Lane lane);
  nlohmann::json entry_of(const Box& box, const std::string& path, Lane lane);
  void add_regions(nlohmann::json& entry, const graph::Node& node, const std::string& path);
  DiagramNode drawn(const Box& box, const std::map<std::string, std::size_t>& from_lanes) const;
  std::string results_of(const Box& box) const;
  std::size_t updates_of(const Box& box) const;
  void find_reads(const std::vector<Box>& boxes, std::optional<Lane> lane, Picture& picture) const;
  void find_results(const std::vector<Box>& boxes, std::optional<Lane> lane, Picture& picture) const;
  int node_entry(std::size_t index);
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
};

}  // namespace diptych::reports
