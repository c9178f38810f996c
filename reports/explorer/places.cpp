#include "reports/explorer/places.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

namespace diptych::reports {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

bool lies_in(const Location& where, std::string_view folder) {
  return std::string_view(where.file).find(folder) != std::string_view::npos;
}

bool is_of_gradient_rule(const Node& node) {
  const graph::Provenance& from = node.provenance;
  return *from.scope == '\0' && (lies_in(from.where, "framework/ops/") || lies_in(from.where, "framework/autograd/"));
}

/// "first_moment.layers.0.weight" -> "first_moment.layers.0"
std::string parent_path(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

/// Walks a captured graph in program order and finds the lane and the scope of each node.
class Finder {
 public:
  explicit Finder(const Graph& graph)
      : graph_(graph),
        lanes_(graph.nodes.size()),
        scopes_(graph.nodes.size()),
        gradient_of_(graph.nodes.size(), graph.nodes.size()),
        cursor_(graph.nodes.size()) {
    find_lanes();
    touching_.resize(graph.types.size());
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      scopes_[i] = graph.nodes[i].provenance.scope;
      if (lanes_[i] == Lane::forward) {
        cursor_ = i;
        for (const auto* values : {&graph.nodes[i].inputs, &graph.nodes[i].outputs}) {
          for (const ValueId value : *values) {
            touching_[value].push_back(i);
          }
        }
      }
    }
    find_scopes();
  }

  Place place(std::size_t node) const {
    Place place{lanes_[node], scopes_[node]};
    if (const std::size_t forward = gradient_of_[node]; forward < graph_.nodes.size()) {
      const std::vector<std::uint32_t>& source = graph_.nodes[forward].provenance.source_ops;
      place.gradient_of = source.empty() ? std::nullopt : std::optional(source.front());
    }
    return place;
  }

 private:
  void find_lanes() {
    bool after_forward = false;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      after_forward = after_forward || is_of_gradient_rule(node);
      const bool in_module = *node.provenance.scope != '\0';
      lanes_[i] = lies_in(node.provenance.where, "framework/optim/") ? Lane::optimizer
                  : after_forward && !in_module                      ? Lane::backward
                                                                     : Lane::forward;
    }
  }

  void find_scopes() {
    is_input_.resize(graph_.types.size());
    for (const graph::Input& input : graph_.inputs) {
      is_input_[input.value] = true;
      if (input.kind == graph::InputKind::state && graph_.types[input.value].shape.rank() > 0) {
        scope_of_value_[input.value] =
            touching_[input.value].empty() ? parent_path(input.name) : scopes_[touching_[input.value].front()];
      }
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (lanes_[i] == Lane::backward) {
        scopes_[i] = scope_of_gradient(graph_.nodes[i]);
        gradient_of_[i] = cursor_;
      } else if (lanes_[i] == Lane::optimizer) {
        scopes_[i] = scope_of_update(graph_.nodes[i]);
      }
      if (lanes_[i] != Lane::forward) {
        for (const ValueId output : graph_.nodes[i].outputs) {
          if (graph_.types[output].shape.rank() > 0) {
            scope_of_value_[output] = scopes_[i];
          }
        }
      }
    }
  }

  /// A backward pass visits the forward ops in reverse order, and a rule reads its op's inputs and output. So the op
  /// whose gradient this is lies no later than that of the node before, and is the last of those that touch a value
  /// which the node reads.
  std::string scope_of_gradient(const Node& node) {
    std::optional<std::size_t> last;
    for (const ValueId input : node.inputs) {
      const std::vector<std::size_t>& touching = touching_[input];
      const auto end = std::upper_bound(touching.begin(), touching.end(), cursor_);
      if (end != touching.begin()) {
        last = std::max(last.value_or(0), *std::prev(end));
      }
    }
    cursor_ = last.value_or(cursor_);
    return cursor_ < scopes_.size() ? scopes_[cursor_] : "";
  }

  /// That of a parameter that it reads, or else of its gradient, or else of the optimizer's state for it.
  std::string scope_of_update(const Node& node) const {
    std::optional<std::string> from_state;
    std::optional<std::string> from_node;
    for (const ValueId input : node.inputs) {
      const auto known = scope_of_value_.find(input);
      if (known == scope_of_value_.end()) {
        continue;
      }
      if (!touching_[input].empty()) {
        return known->second;
      }
      (is_input_[input] ? from_state : from_node) = known->second;
    }
    return from_node.value_or(from_state.value_or(""));
  }

  const Graph& graph_;
  std::vector<Lane> lanes_;
  std::vector<std::string> scopes_;
  std::vector<std::size_t> gradient_of_;            ///< a forward node, or none: behind the last
  std::vector<std::vector<std::size_t>> touching_;  ///< the forward nodes that make or read a value, in order
  std::vector<bool> is_input_;                      ///< by value
  std::size_t cursor_;                              ///< the forward op whose gradient is being computed
  std::map<ValueId, std::string> scope_of_value_;   ///< not of scalars, which all parameters share
};

}  // namespace

const char* name_of(Lane lane) {
  return lane == Lane::forward ? "forward" : lane == Lane::backward ? "backward" : "optimizer";
}

Places::Places(const Graph& captured) {
  const Finder finder(captured);
  for (std::size_t i = 0; i < captured.nodes.size(); ++i) {
    const Node& node = captured.nodes[i];
    const Place place = finder.place(i);
    for (const std::uint32_t source : node.provenance.source_ops) {
      by_source_op_.try_emplace(source, place);
    }
    add_regions(node, place.lane);
  }
}

void Places::add_regions(const Node& node, Lane lane) {
  for (const auto& region : node.regions) {
    for (const Node& inner : region->nodes) {
      for (const std::uint32_t source : inner.provenance.source_ops) {
        by_source_op_.try_emplace(source, Place{lane, inner.provenance.scope});
      }
      add_regions(inner, lane);
    }
  }
}

Place Places::of(const graph::Provenance& provenance) const {
  for (const std::uint32_t source : provenance.source_ops) {
    if (const auto known = by_source_op_.find(source); known != by_source_op_.end()) {
      return known->second;
    }
  }
  return {Lane::forward, provenance.scope};
}

}  // namespace diptych::reports
