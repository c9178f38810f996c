#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "reports/diagrams/diagram.h"

namespace diptych::reports {

/// What the page's script reads, each thing once: most of a program is the same after every pass, and so are repeated
/// blocks. docs/graph-explorer.md describes the members.
class ExplorerTables {
 public:
  /// Indices into the tables.
  int string(const std::string& text);
  int node(const nlohmann::json& node) { return unique(node, nodes_, node_index_); }
  int level(const nlohmann::json& level) { return unique(level, levels_, level_index_); }
  int values(const nlohmann::json& values) { return unique(values, values_, values_index_); }
  /// Keeps the picture, unless an equal one is there.
  int picture(const Diagram& diagram);

  nlohmann::json take_json();
  /// The pictures, each laid out: what takes longest.
  using Progress = std::function<void(std::size_t done, std::size_t of)>;
  std::vector<std::string> drawn(const Progress& progress) const;
  const nlohmann::json& level_at(int index) const { return levels_[static_cast<std::size_t>(index)]; }

 private:
  using Index = std::map<std::string, int>;
  static int unique(const nlohmann::json& entry, nlohmann::json& table, Index& index);

  nlohmann::json strings_ = nlohmann::json::array(), nodes_ = nlohmann::json::array();
  nlohmann::json levels_ = nlohmann::json::array(), values_ = nlohmann::json::array();
  std::vector<Diagram> pictures_;
  Index string_index_, node_index_, level_index_, values_index_, picture_index_;
};

}  // namespace diptych::reports
