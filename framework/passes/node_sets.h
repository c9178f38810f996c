#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "framework/graph/ir.h"

namespace diptych::passes {

/// Sets of a graph's nodes, each of which can run as one: no way leads out of a set and back in. At first each node is
/// one; a set has the number of one of its nodes.
class NodeSets {
 public:
  NodeSets() = default;
  explicit NodeSets(const graph::Graph& graph);

  std::uint32_t of(std::uint32_t node) const;
  /// In order.
  std::span<const std::uint32_t> nodes(std::uint32_t set) const { return sets_[set].nodes; }
  /// The sets that it directly depends on.
  std::set<std::uint32_t> before(std::uint32_t set) const;
  /// All sets: each after those that it depends on, otherwise by their last nodes.
  std::vector<std::uint32_t> in_order() const;
  /// Into `a`. False, and nothing changes, if a way leads from one to the other through a third.
  bool join(std::uint32_t a, std::uint32_t b);

 private:
  struct Set {
    std::uint32_t first = 0;
    std::vector<std::uint32_t> nodes;  ///< in order
    std::set<std::uint32_t> before;    ///< nodes on which it depends
  };
  /// Whether `to` depends on `from` by way of others.
  bool leads(std::uint32_t from, std::uint32_t to) const;

  std::vector<std::uint32_t> parent_;
  std::vector<Set> sets_;
};

}  // namespace diptych::passes
