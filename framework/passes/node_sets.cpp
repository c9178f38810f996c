#include "framework/passes/node_sets.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <queue>

namespace diptych::passes {

NodeSets::NodeSets(const graph::Graph& graph) : parent_(graph.nodes.size()), sets_(graph.nodes.size()) {
  std::iota(parent_.begin(), parent_.end(), 0U);
  std::vector<std::uint32_t> producer(graph.types.size(), UINT32_MAX);
  std::uint32_t ordered = UINT32_MAX;  // the last node that must stay behind those before it
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const graph::Node& node = graph.nodes[i];
    Set& set = sets_[i];
    set.first = i;
    set.nodes = {i};
    for (const graph::ValueId input : node.inputs) {
      if (producer[input] != UINT32_MAX) {
        set.before.insert(producer[input]);
      }
    }
    if (graph::has_effect(node) || graph::can_fail(node)) {
      if (ordered != UINT32_MAX) {
        set.before.insert(ordered);
      }
      ordered = i;
    }
    for (const graph::ValueId output : node.outputs) {
      producer[output] = i;
    }
  }
}

std::uint32_t NodeSets::of(std::uint32_t node) const {
  while (parent_[node] != node) {
    node = parent_[node];
  }
  return node;
}

std::set<std::uint32_t> NodeSets::before(std::uint32_t set) const {
  std::set<std::uint32_t> result;
  for (const std::uint32_t node : sets_[set].before) {
    if (of(node) != set) {
      result.insert(of(node));
    }
  }
  return result;
}

std::vector<std::uint32_t> NodeSets::in_order() const {
  std::map<std::uint32_t, std::vector<std::uint32_t>> after;
  std::map<std::uint32_t, std::size_t> waits_for;
  using LastNodeAndSet = std::pair<std::uint32_t, std::uint32_t>;
  std::priority_queue<LastNodeAndSet, std::vector<LastNodeAndSet>, std::greater<>> ready;
  for (std::uint32_t i = 0; i < parent_.size(); ++i) {
    if (of(i) != i) {
      continue;
    }
    const std::set<std::uint32_t> earlier = before(i);
    waits_for[i] = earlier.size();
    for (const std::uint32_t set : earlier) {
      after[set].push_back(i);
    }
    if (earlier.empty()) {
      ready.emplace(nodes(i).back(), i);
    }
  }
  std::vector<std::uint32_t> order;
  while (!ready.empty()) {
    order.push_back(ready.top().second);
    ready.pop();
    for (const std::uint32_t next : after[order.back()]) {
      if (--waits_for[next] == 0) {
        ready.emplace(nodes(next).back(), next);
      }
    }
  }
  return order;
}

bool NodeSets::join(std::uint32_t a, std::uint32_t b) {
  if (leads(a, b) || leads(b, a)) {
    return false;
  }
  Set& to = sets_[a];
  Set& from = sets_[b];
  to.first = std::min(to.first, from.first);
  to.before.merge(from.before);
  std::vector<std::uint32_t> merged;
  std::merge(to.nodes.begin(), to.nodes.end(), from.nodes.begin(), from.nodes.end(), std::back_inserter(merged));
  to.nodes = std::move(merged);
  parent_[b] = a;
  return true;
}

bool NodeSets::leads(std::uint32_t from, std::uint32_t to) const {
  std::vector<std::uint32_t> open;
  std::set<std::uint32_t> seen;
  const auto visit = [&](std::uint32_t set) {
    // All that depends on `from` comes after its first node.
    if (sets_[set].nodes.back() > sets_[from].first && seen.insert(set).second) {
      open.push_back(set);
    }
  };
  for (const std::uint32_t set : before(to)) {
    if (set != from) {
      visit(set);
    }
  }
  while (!open.empty()) {
    const std::uint32_t set = open.back();
    open.pop_back();
    for (const std::uint32_t next : before(set)) {
      if (next == from) {
        return true;
      }
      visit(next);
    }
  }
  return false;
}

}  // namespace diptych::passes
